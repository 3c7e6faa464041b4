package controlplane

import (
	"strings"
	"testing"
)

func TestChooseScheduler(t *testing.T) {
	for _, tt := range []struct{ name, asked, had, want string }{
		{"a new folder has Berth's scheduler", "", "new", SchedulerBerth},
		{"a folder from before there was a choice keeps the stock one", "", "", SchedulerStock},
		{"a folder keeps what it had", "", SchedulerBerth, SchedulerBerth},
		{"what is asked for wins", SchedulerStock, SchedulerBerth, SchedulerStock},
		{"none is a choice too", SchedulerNone, SchedulerBerth, SchedulerNone},
		{"a name that is none is refused", "best", "", `scheduler "best": must be stock, berth, or none`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fresh := tt.had == "new"
			if fresh {
				tt.had = ""
			}
			got, err := chooseScheduler(tt.asked, tt.had, fresh)
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTheStockSchedulerHasNoProfilesOfOurs(t *testing.T) {
	if text := schedulerConfig("k", SchedulerStock, "refuse", nil); strings.Contains(text, "profiles") {
		t.Errorf("the configuration of the stock scheduler has profiles:\n%s", text)
	}
	if text := schedulerConfig("k", SchedulerBerth, "", nil); strings.Count(text, "schedulerName: ") != 2 {
		t.Errorf("the configuration of Berth's scheduler has not two profiles:\n%s", text)
	}
}
