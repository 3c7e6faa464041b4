package health_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/health"
)

func TestParsePolicy(t *testing.T) {
	some := []int{13, 31, 43, 45, 48, 63, 68, 74, 79, 94, 95, 109, 999}
	for _, c := range []struct {
		name, disable, enable string
		want                  []int // of some, those that mark
		off                   bool
		bad                   []string
	}{
		{name: "NVIDIA's catalogue decides", want: []int{48, 74, 79, 95, 109, 999}},
		{name: "codes can be disabled", disable: "48, 109", want: []int{74, 79, 95, 999}},
		{name: "codes can be enabled", enable: "94,13", want: []int{13, 48, 74, 79, 94, 95, 109, 999}},
		{name: "what is enabled goes before what is disabled", disable: "48,79", enable: "79", want: []int{74, 79, 95, 109, 999}},
		{name: "xids disables every code", disable: "xids"},
		{name: "all disables every code and more", disable: "ALL", off: true},
		{name: "a word beside codes is as good", disable: "48, xids ,13"},
		{name: "single codes can be enabled beside all", disable: "all", enable: "79", want: []int{79}},
		{name: "all can be enabled, an application's too", enable: "all", want: some},
		{
			name: "what is no code is told of", disable: "48,,ecc", enable: "-1", want: []int{74, 79, 95, 109, 999},
			bad: []string{
				`DP_DISABLE_HEALTHCHECKS: "ecc" is no Xid and is left out; write numbers with commas between, xids or all`,
				`DP_ENABLE_HEALTHCHECKS: "-1" is no Xid and is left out; write numbers with commas between, xids or all`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, bad := health.ParsePolicy(c.disable, c.enable)
			if d := cmp.Diff(c.bad, bad); d != "" {
				t.Errorf("told of (-want +got):\n%s", d)
			}
			var got []int
			for _, xid := range some {
				if p.Marks(xid) {
					got = append(got, xid)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" || p.Off() != c.off {
				t.Errorf("ParsePolicy(%q, %q) marks (-want +got):\n%soff: %v, want %v", c.disable, c.enable, d, p.Off(), c.off)
			}
		})
	}
}

func TestADisabledPolicyJudgesNothing(t *testing.T) {
	off, _ := health.ParsePolicy("all", "")
	s := health.New(off)
	s.Inventory(node(), start)
	s.Event(health.Event{UUID: "GPU-0", Lost: true, GI: -1}, start)
	s.Event(health.Event{UUID: "GPU-1", Xid: 79, GI: -1}, start)
	s.Inventory(node()[1:], start.Add(time.Second))
	if got := unhealthy(s); len(got) > 0 || s.Due(start.Add(time.Hour)) != nil || !s.Next().IsZero() {
		t.Errorf("unhealthy: %v, next %v", got, s.Next())
	}
	xids, _ := health.ParsePolicy("xids", "")
	s = begin(t, xids)
	s.Event(health.Event{UUID: "GPU-1", Xid: 79, GI: -1}, start)
	s.Event(health.Event{UUID: "GPU-0", Lost: true, GI: -1}, start)
	if got := unhealthy(s); !slices.Equal(got, []string{"GPU-0"}) {
		t.Errorf("with the Xids disabled, unhealthy: %v, want the lost GPU", got)
	}
}

func TestIgnoredListsTheCodesThatMarkNothing(t *testing.T) {
	p, _ := health.ParsePolicy("48", "")
	got := p.Ignored()
	for _, xid := range []int{13, 31, 43, 45, 48, 68, 94} {
		if !slices.Contains(got, xid) {
			t.Errorf("Ignored() = %v, want %d in it", got, xid)
		}
	}
	if slices.Contains(got, 79) || slices.Contains(got, 0) || !slices.IsSorted(got) {
		t.Errorf("Ignored() = %v", got)
	}
}
