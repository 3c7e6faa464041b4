package controlplane

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/internal/datadir"
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

func TestReadyWaitsForTheSchedulerToReadQueues(t *testing.T) {
	off := string(runtime.Off)
	for _, tt := range []struct {
		name  string
		state datadir.State
		read  time.Duration // after which they are read; negative is never
		want  time.Duration
	}{
		{"until they are read", datadir.State{Scheduler: SchedulerBerth}, time.Second, time.Second},
		{"not long, if that fails", datadir.State{Scheduler: SchedulerBerth}, -1, queuesPatience},
		{"the stock scheduler reads none", datadir.State{Scheduler: SchedulerStock}, -1, 0},
		{"nor does any where none are served", datadir.State{Scheduler: SchedulerBerth, Notebooks: off, Training: off, Serving: off}, -1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, queues, began := &plane{state: tt.state, log: slog.New(slog.DiscardHandler)}, make(chan struct{}), time.Now()
				if tt.read >= 0 {
					time.AfterFunc(tt.read, func() { close(queues) })
				}
				if err := p.awaitQueues(t.Context(), queues); err != nil || time.Since(began) != tt.want {
					t.Errorf("ready after %v, %v; want %v", time.Since(began), err, tt.want)
				}
			})
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := (&plane{state: datadir.State{Scheduler: SchedulerBerth}}).awaitQueues(ctx, make(chan struct{})); err == nil {
		t.Error("a control plane that stops waits on")
	}
}
