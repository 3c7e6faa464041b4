package quota_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/request"
	schedulerquota "berth.dev/berth/scheduler/quota"
)

// TestNothingIsKeptOfPodsThatAreGone has pods and a gang admitted, bound and deleted, and one refused and
// deleted: a scheduler that runs for months must not grow with each.
func TestNothingIsKeptOfPodsThatAreGone(t *testing.T) {
	q := counting([]*v1alpha1.Queue{queueOf("team", "", 4)})
	admit := func(a *schedulerquota.Ask, refused bool) {
		t.Helper()
		for _, pod := range a.Pods {
			q.Seen(pod)
		}
		if answer := q.Try(a); (answer.Refused != "") != refused {
			t.Fatalf("the answer is %+v; refused is to be %v", answer, refused)
		}
	}
	bind := func(pods ...*v1.Pod) {
		for _, pod := range pods {
			q.Reserve(pod, "n")
			life := lifeOf(pod)
			q.Seen(life.bound)
			q.Seen(life.runs)
		}
	}
	alone := podOf("alone", "team")
	admit(schedulerquota.Alone(alone, request.TicketOf(alone)), false)
	bind(alone)
	var members []*v1.Pod
	for i := range 3 {
		pod := podOf(fmt.Sprint("member-", i), "team")
		pod.Annotations = map[string]string{api.AnnotationGang: "g", api.AnnotationGangMinCount: "3"}
		members = append(members, pod)
	}
	admit(&schedulerquota.Ask{Lead: members[0], Pods: members, Need: 3, Gang: "default/g", Ticket: request.TicketOf(members[0])}, false)
	bind(members...)
	late := podOf("late", "team")
	admit(schedulerquota.Alone(late, request.TicketOf(late)), true)
	q.Gone(late.UID)
	for _, pod := range append(members, alone) {
		if q.Known() == 0 {
			t.Fatalf("nothing is known any longer, and pod %s is still there", pod.Name)
		}
		q.Gone(pod.UID)
	}
	if n := q.Known(); n != 0 {
		t.Errorf("%d things are known of pods that are gone, want none", n)
	}
	if used := q.Book().HeldGPUs()["team"]; used != 0 {
		t.Errorf("queue team holds %d parts of pods that are gone", used)
	}
}
