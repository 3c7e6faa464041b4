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

// TestACallDuringATryIsKept has quota become free for a pod while its try, which found none, ends: it is not
// released as if that try had come after it.
func TestACallDuringATryIsKept(t *testing.T) {
	q := counting([]*v1alpha1.Queue{queueOf("team", "", 1)})
	holds, first, second := lifeOf(podOf("holds", "team")), podOf("first", "team"), podOf("second", "team")
	q.Seen(holds.bound)
	for _, p := range []*v1.Pod{first, second} {
		q.Seen(p)
		if q.Try(schedulerquota.Alone(p, request.TicketOf(p))).Refused == "" {
			t.Fatalf("%s may go on, and no quota is left", p.Name)
		}
	}
	q.Failed(second)
	if q.Counted([]*v1.Pod{holds.bound, first, second}) != 1 {
		t.Error("one pod of three holds quota, and it is not what is counted")
	}
	q.Gone(holds.bound.UID)
	if q.Counted([]*v1.Pod{holds.bound}) > 0 {
		t.Error("a pod that is gone counts")
	}
	q.Failed(first) // of the try before
	if answer := q.Try(schedulerquota.Alone(second, request.TicketOf(second))); answer.Refused == "" {
		t.Error("the second may go on, and the first was called")
	}
	if answer := q.Try(schedulerquota.Alone(first, request.TicketOf(first))); answer.Refused != "" {
		t.Errorf("the first was called, and is refused: %s", answer.Refused)
	}
	q.Failed(first)
	if answer := q.Try(schedulerquota.Alone(second, request.TicketOf(second))); answer.Refused != "" {
		t.Errorf("the first failed after it was tried, and the second is refused: %s", answer.Refused)
	}
}
