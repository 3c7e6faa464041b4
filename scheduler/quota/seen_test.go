package quota_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/queues"
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

// TestAUserThatIsKnownLaterMakesRoom has the user of a pod that runs become known, as its owner is seen after it: it no longer counts for those
// who are not known, so one of them that waits may go on.
func TestAUserThatIsKnownLaterMakesRoom(t *testing.T) {
	known := map[types.UID]string{}
	pieces := []quota.Piece{{Devices: 1, Parts: quota.Whole}}
	of := func(pod *v1.Pod) string { return known[pod.UID] }
	q, called := schedulerquota.New(), 0
	q.CallBy(func(pods []*v1.Pod) { called += len(pods) })
	limit := quota.Spec{
		Name: "team", PerUser: []quota.Limit{{Resource: quota.GPUs, Most: quota.Whole}},
		Quotas: []quota.Quota{{Resource: quota.GPUs, Nominal: 8 * quota.Whole, Borrowing: quota.Unlimited, Lending: quota.Unlimited}},
	}
	q.SetQueues([]quota.Spec{limit}, queues.Reader{
		Queue: func(*v1.Pod) string { return "team" }, User: of, Held: func(*v1.Pod, string) []quota.Piece { return pieces },
		Asked: func(p *v1.Pod, _ sharing.Ways) (quota.Pod, []quota.Kind) {
			return quota.Pod{ID: string(p.UID), Pieces: pieces}, nil
		},
	})
	first, second := podOf("first", "team"), podOf("second", "team")
	for _, pod := range []*v1.Pod{first, second} {
		q.Seen(pod)
	}
	if answer := q.Try(schedulerquota.Alone(first, request.TicketOf(first))); answer.Refused != "" {
		t.Fatal(answer)
	}
	q.Reserve(first, "n")
	life := lifeOf(first)
	q.Seen(life.bound)
	if answer := q.Try(schedulerquota.Alone(second, request.TicketOf(second))); answer.Refused == "" || called > 0 {
		t.Fatalf("the second pod of users who are not known: %+v; called %d times", answer, called)
	}
	known[first.UID] = "alice"
	q.Seen(life.runs)
	if called != 1 || !q.Lets(second.UID) {
		t.Errorf("when the user of the first is known the second is called %d times, and may go on: %v", called, q.Lets(second.UID))
	}
}

// TestAPodMayGetANodeBeforeTheWatchShowsIt has the scheduler place a pod that the quotas have not seen: it is counted once all the
// same, and nothing is left of one that gets no node and is gone.
func TestAPodMayGetANodeBeforeTheWatchShowsIt(t *testing.T) {
	q := counting([]*v1alpha1.Queue{queueOf("team", "", 8)})
	place := func(pod *v1.Pod) {
		t.Helper()
		if answer := q.Try(schedulerquota.Alone(pod, request.TicketOf(pod))); answer.Refused != "" {
			t.Fatal(answer)
		}
		q.Reserve(pod, "n")
	}
	l := lifeOf(podOf("fast", "team"))
	place(l.created)
	before := q.Version()
	q.Seen(l.created)
	q.Seen(l.bound)
	if used := q.Book().HeldGPUs()["team"]; used != quota.Whole || q.Version() != before {
		t.Errorf("queue team holds %d parts, and was counted %d times more; want one GPU, counted once", used, q.Version()-before)
	}
	q.Gone(l.created.UID)
	gone := podOf("gone", "team")
	place(gone)
	q.Unreserve(gone)
	q.Gone(gone.UID)
	if n, used := q.Known(), q.Book().HeldGPUs()["team"]; n != 0 || used != 0 {
		t.Errorf("%d things are known of pods that are gone, which hold %d parts; want none", n, used)
	}
}
