package quota

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// TestTheLineIsOrderedByWorkloadPriorityClasses has two pods wait for one GPU, before and after their
// classes are known.
func TestTheLineIsOrderedByWorkloadPriorityClasses(t *testing.T) {
	q := New()
	var called []string
	q.call = func(pods []*v1.Pod) {
		for _, p := range pods {
			called = append(called, p.Name)
		}
	}
	pieces := []quota.Piece{{Devices: 1, Parts: quota.Whole}}
	know := func(lines queues.LinePriorities) {
		q.SetQueues([]quota.Spec{{Name: "red", Quotas: []quota.Quota{{Resource: quota.GPUs, Nominal: quota.Whole, Borrowing: quota.Unlimited, Lending: quota.Unlimited}}}}, queues.Reader{
			Queue: func(*v1.Pod) string { return "red" }, User: func(*v1.Pod) string { return "" }, Held: func(*v1.Pod, string) []quota.Piece { return pieces },
			Asked: func(p *v1.Pod, _ sharing.Ways) (quota.Pod, []quota.Kind) {
				return quota.Pod{ID: string(p.UID), Pieces: pieces}, nil
			},
			Kind: func(*v1.Node) quota.Kind { return quota.Kind{} }, Line: func(o metav1.Object) *int32 { return lines.Of(o, nil) },
		})
	}
	know(nil)
	holds, older, newer := kubetest.Pod("holds", "n", "nvidia.com/gpu", 1), kubetest.Pod("older", "", "nvidia.com/gpu", 1), kubetest.Pod("younger", "", "nvidia.com/gpu", 1)
	newer.Labels[api.LabelKueuePriority] = "urgent"
	for _, p := range []*v1.Pod{holds, older, newer} {
		q.Seen(p)
	}
	for _, p := range []*v1.Pod{older, newer} {
		if a := q.Try(Alone(p, request.TicketOf(p))); a.Refused == "" {
			t.Fatalf("%s may go on, and no quota is left", p.Name)
		}
	}
	first := func() string { return q.book.Waiting("red")[0].ID }
	if got := first(); got != "older" {
		t.Errorf("%s is first, want the older pod", got)
	}
	know(queues.LinePriorities{"urgent": 100})
	if got := first(); got != "younger" {
		t.Errorf("%s is first, want the one with a class, now that it is known", got)
	}
	if turn := q.Turn(Alone(newer, request.TicketOf(newer))); turn.Priority != 100 {
		t.Errorf("its turn is of priority %d", turn.Priority)
	}
	called = nil
	q.Gone(holds.UID)
	if len(called) != 1 || called[0] != "younger" {
		t.Errorf("called are %v, want the one with a class alone", called)
	}
}
