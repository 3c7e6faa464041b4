package meter

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/ledger"
)

// asking is a pod that was created at a time and waits for quota.
func asking(name string, created int) *v1.Pod {
	p := aPod(name, "", 2, 0)
	p.CreationTimestamp = metav1.NewTime(at(created))
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: queue.Quota.Mark("queue red has 0 of 2"), LastTransitionTime: metav1.NewTime(at(created))}}
	return p
}

// life is a pod that waits for quota, gets a place, is preempted, and ends.
func life(name string) []*v1.Pod {
	bound := aPod(name, "n", 2, 5)
	bound.CreationTimestamp = metav1.NewTime(at(1))
	victim := bound.DeepCopy()
	victim.Status.Conditions = append(victim.Status.Conditions, v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler, Message: "berth: preempting to accommodate b/x of priority 9", LastTransitionTime: metav1.NewTime(at(8)),
	})
	return []*v1.Pod{asking(name, 1), bound, victim, finished(victim, 9)}
}

// audited is what the book has of a user, in words.
func (r *rig) audited(user string) string {
	lines, err := r.book.Audit(r.Context(), &ledger.AuditFilter{From: at(-1000), To: at(1000), User: user})
	if err != nil {
		r.Fatal(err)
	}
	var out []string
	for _, l := range lines {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%v %s %s/%s %s %s", l.At.Sub(epoch).Minutes(), l.Act, l.Who.Namespace, l.Who.Owner, l.Node, l.Reason)))
	}
	return strings.Join(out, "; ")
}

// TestEachStepIsWrittenOnceThoughTheMeterIsKilled plays a life with a meter that is killed before and after each step: all steps are
// in the book once, with the user.
func TestEachStepIsWrittenOnceThoughTheMeterIsKilled(t *testing.T) {
	const want = "1 asked vision/a; 1 waits vision/a  WaitingForQuota; 5 admitted vision/a; 5 granted vision/a n; 8 preempted vision/a n PreemptionByScheduler; 9 released vision/a n Succeeded"
	for kills := range 1 << 4 {
		r := newRig(t)
		r.node(aNode("n", 2, 0))
		r.clock = at(20)
		steps := life("a")
		for k, p := range steps {
			r.pod(p)
			r.flush()
			if kills&(1<<k) != 0 {
				r.start()
				r.node(aNode("n", 2, 0))
				r.pod(p)
				r.missed()
				r.flush()
			}
		}
		r.gone(steps[3])
		r.flush()
		if got := r.audited("ann"); got != want {
			t.Errorf("with kills %b the book has\n%s, want\n%s", kills, got, want)
		}
	}
}

func TestAChangeOfAQueueIsWritten(t *testing.T) {
	r := newRig(t)
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{
		Name: "red", UID: "q", Generation: 1, CreationTimestamp: metav1.NewTime(at(0)), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: new(metav1.NewTime(at(0)))}},
	}}
	r.traceQueues([]*v1alpha1.Queue{q})
	q = q.DeepCopy()
	q.Generation, q.Spec.Default = 2, true
	q.ManagedFields = append(q.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl-edit", Time: new(metav1.NewTime(at(3)))}, metav1.ManagedFieldsEntry{Manager: "berth", Time: new(metav1.NewTime(at(4))), Subresource: "status"})
	r.traceQueues([]*v1alpha1.Queue{q})
	r.traceQueues([]*v1alpha1.Queue{q})
	r.clock = at(5)
	r.traceQueues(nil)
	r.flush()
	if got, want := r.audited(""), "0 created /red  kubectl; 3 changed /red  kubectl-edit; 5 deleted /red"; got != want {
		t.Errorf("the book has %s, want %s", got, want)
	}
}
