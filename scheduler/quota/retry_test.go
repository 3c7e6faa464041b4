package quota_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/request"
	schedulerquota "berth.dev/berth/scheduler/quota"
)

// TestWhatIsTriedAgainKeepsItsPlaceInLine has quota become free between the reason to try a pod again and that try:
// it is for this pod, and not for one behind it.
func TestWhatIsTriedAgainKeepsItsPlaceInLine(t *testing.T) {
	q := counting([]*v1alpha1.Queue{queueOf("team", "", 1)})
	var called []string
	q.CallBy(func(pods []*v1.Pod) {
		for _, p := range pods {
			called = append(called, p.Name)
		}
	})
	holds, first, second := lifeOf(podOf("holds", "team")), podOf("first", "team"), podOf("second", "team")
	q.Seen(holds.bound)
	try := func(p *v1.Pod) string {
		q.Seen(p)
		answer := q.Try(schedulerquota.Alone(p, request.TicketOf(p)))
		if answer.Refused != "" {
			q.Failed(p)
		}
		return answer.Refused
	}
	if try(first) == "" || try(second) == "" {
		t.Fatal("two may go on, and no quota is left")
	}
	q.Retry(map[string]*v1.Pod{"first": first})
	if !q.Lets(first.UID) || q.Waits(first) || q.Lets(second.UID) || !q.Waits(second) {
		t.Errorf("the first is to be tried, and the second waits; they are let: %v, %v", q.Lets(first.UID), q.Lets(second.UID))
	}
	called = nil
	q.Gone(holds.bound.UID)
	if len(called) != 1 || called[0] != "first" {
		t.Errorf("called are %v, want the first alone", called)
	}
	if refused := try(first); refused != "" {
		t.Errorf("the first is refused: %s", refused)
	}
	if try(second) == "" || q.Lets(second.UID) {
		t.Error("the second may go on, and the first has the quota")
	}
}
