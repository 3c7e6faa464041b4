package audit

import (
	"fmt"
	"testing"
	"time"
)

var epoch = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }

func TestNext(t *testing.T) {
	asked := Pod{UID: "p", Created: at(0), Asks: "2 nvidia.com/gpu"}
	waits := asked
	waits.WaitsSince, waits.WaitsFor, waits.WaitsText, waits.ForQuota = at(1), "WaitingForQuota", "queue red has 0 of 2", true
	admitted := waits
	admitted.ForQuota, admitted.WaitsFor, admitted.WaitsText = false, "Unschedulable", "0/3 nodes fit"
	bound := asked
	bound.Bound, bound.Node, bound.Devices = at(5), "n1", "GPU-1, GPU-2"
	moved := bound
	moved.Devices = "GPU-3, GPU-4"
	victim := bound
	victim.Disrupted, victim.DisruptedBy, victim.Disrupter, victim.ForRoom = at(8), "PreemptionByScheduler", "for b/x of priority 9", true
	drained := bound
	drained.Disrupted, drained.DisruptedBy = at(8), "EvictionByEvictionAPI"
	over := victim
	over.Ended, over.EndedHow, over.EndText = at(9), "Failed", "exit code 143"
	for _, c := range []struct {
		name    string
		was, is Pod
		want    string
	}{
		{"a new pod asks", Pod{}, asked, "0 asked 2 nvidia.com/gpu"},
		{"seen again nothing happens", bound, bound, ""},
		{"a pod waits since its condition says", asked, waits, "1 waits WaitingForQuota queue red has 0 of 2"},
		{"one that waits when it is first seen", Pod{}, waits, "0 asked 2 nvidia.com/gpu; 1 waits WaitingForQuota queue red has 0 of 2"},
		{"another sentence for the same wait is nothing new", waits, func() Pod { p := waits; p.WaitsText = "1 of 2"; return p }(), ""},
		{"a pod is admitted, and waits for room", waits, admitted, "60 waits Unschedulable 0/3 nodes fit; 60 admitted its queue has quota for it"},
		{"a pod is admitted, and gets its place at once", waits, bound, "5 admitted its queue has quota for it; 5 granted n1 GPU-1, GPU-2"},
		{"a pod gets its place", asked, bound, "5 granted n1 GPU-1, GPU-2"},
		{"its devices change", bound, moved, "60 moved n1 GPU-3, GPU-4"},
		{"a pod is preempted", bound, victim, "8 preempted n1 PreemptionByScheduler for b/x of priority 9"},
		{"a pod is evicted", bound, drained, "8 evicted n1 EvictionByEvictionAPI"},
		{"a pod ends", victim, over, "9 released n1 Failed exit code 143"},
		{"a whole life at once, in its order", Pod{}, over, "0 asked 2 nvidia.com/gpu; 5 granted n1 GPU-1, GPU-2; 8 preempted n1 PreemptionByScheduler for b/x of priority 9; 9 released n1 Failed exit code 143"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := text(Next(&c.was, &c.is, at(60))); got != c.want {
				t.Errorf("what happens is %q, want %q", got, c.want)
			}
		})
	}
}

func text(list []Record) (out string) {
	for i, r := range list {
		if i > 0 {
			out += "; "
		}
		out += fmt.Sprintf("%v %s", r.At.Sub(epoch).Minutes(), r.Act)
		for _, word := range []string{r.Node, r.Reason, r.Detail} {
			if word != "" {
				out += " " + word
			}
		}
	}
	return out
}

func TestNextQueue(t *testing.T) {
	made := Queue{UID: "q", Created: at(0), Changed: at(0), By: "kubectl", Generation: 1, Rules: "All 8"}
	more := Queue{UID: "q", Created: at(0), Changed: at(7), By: "kubectl-edit", Generation: 2, Rules: "All 16"}
	for _, c := range []struct {
		name string
		was  *Queue
		is   Queue
		want string
	}{
		{"a new queue", nil, made, "0 created kubectl All 8"},
		{"its quota changes", &made, more, "7 changed kubectl-edit All 16; before: All 8"},
		{"seen again nothing happens", &more, more, ""},
		{"a change that was missed", nil, more, "7 changed kubectl-edit All 16"},
	} {
		if got := text(NextQueue(c.was, &c.is, at(60))); got != c.want {
			t.Errorf("%s: what happens is %q, want %q", c.name, got, c.want)
		}
	}
}
