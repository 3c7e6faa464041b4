package health_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/health"
)

func TestNewPolicy(t *testing.T) {
	all, xids := health.Codes{All: true}, health.Codes{Xids: true}
	of := func(codes ...int) health.Codes { return health.Codes{Some: codes} }
	some := []int{13, 31, 43, 45, 48, 63, 68, 74, 79, 94, 95, 109, 999}
	for _, c := range []struct {
		name            string
		disable, enable health.Codes
		want            []int // of some, those that mark
		off             bool
	}{
		{name: "NVIDIA's catalog decides", want: []int{48, 74, 79, 95, 109, 999}},
		{name: "codes can be disabled", disable: of(48, 109), want: []int{74, 79, 95, 999}},
		{name: "codes can be enabled", enable: of(94, 13), want: []int{13, 48, 74, 79, 94, 95, 109, 999}},
		{name: "what is enabled goes before what is disabled", disable: of(48, 79), enable: of(79), want: []int{74, 79, 95, 109, 999}},
		{name: "xids disables every code", disable: xids},
		{name: "all disables every code and more", disable: all, off: true},
		{name: "a word beside codes is as good", disable: health.Codes{Xids: true, Some: []int{48}}},
		{name: "single codes can be enabled beside all", disable: all, enable: of(79), want: []int{79}},
		{name: "all can be enabled, an application's too", enable: all, want: some},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := health.NewPolicy(c.disable, c.enable)
			var got []int
			for _, xid := range some {
				if p.Marks(xid) {
					got = append(got, xid)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" || p.Off() != c.off {
				t.Errorf("NewPolicy(%+v, %+v) marks (-want +got):\n%soff: %v, want %v", c.disable, c.enable, d, p.Off(), c.off)
			}
		})
	}
}

func TestADisabledPolicyJudgesNothing(t *testing.T) {
	off := health.NewPolicy(health.Codes{All: true}, health.Codes{})
	s := health.New(off)
	s.Inventory(node(), start)
	s.Event(health.Event{UUID: "GPU-0", Lost: true, GI: -1}, start)
	s.Event(health.Event{UUID: "GPU-1", Xid: 79, GI: -1}, start)
	s.Inventory(node()[1:], start.Add(time.Second))
	if got := unhealthy(s); len(got) > 0 || s.Due(start.Add(time.Hour)) != nil || !s.Next().IsZero() {
		t.Errorf("unhealthy: %v, next %v", got, s.Next())
	}
	xids := health.NewPolicy(health.Codes{Xids: true}, health.Codes{})
	s = begin(t, xids)
	s.Event(health.Event{UUID: "GPU-1", Xid: 79, GI: -1}, start)
	s.Event(health.Event{UUID: "GPU-0", Lost: true, GI: -1}, start)
	if got := unhealthy(s); !slices.Equal(got, []string{"GPU-0"}) {
		t.Errorf("with the Xids disabled, unhealthy: %v, want the lost GPU", got)
	}
}

func TestIgnoredListsTheCodesThatMarkNothing(t *testing.T) {
	p := health.NewPolicy(health.Codes{Some: []int{48}}, health.Codes{})
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
