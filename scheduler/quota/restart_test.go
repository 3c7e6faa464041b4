package quota_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/user"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	schedulerquota "berth.dev/berth/scheduler/quota"
	"berth.dev/berth/test/soak"
)

// player is a cluster in random use: pods and gangs of three queues come, are tried as soon as they come
// and whenever they are called, run, change and end.
type player struct {
	chance *rand.Rand
	q      *schedulerquota.Quota
	list   []*v1alpha1.Queue
	pods   map[types.UID]*v1.Pod
	called []*v1.Pod
	serial int
}

func newPlayer(seed uint64) *player {
	p := &player{chance: rand.New(rand.NewPCG(seed, 11)), pods: map[types.UID]*v1.Pod{}}
	limit := func(gpus int64) *resource.Quantity { return resource.NewQuantity(gpus, resource.DecimalSI) }
	org, a, b, c := queueOf("org", "", 12), queueOf("a", "org", 4), queueOf("b", "org", 4), queueOf("c", "org", 2)
	a.Spec.PerUser = []v1alpha1.QueueLimit{{GPUs: v1alpha1.GPUsAll, Max: *limit(5)}}
	b.Spec.Order = v1alpha1.OrderFair
	c.Spec.Quotas[0].BorrowingLimit = limit(p.chance.Int64N(6))
	p.list = []*v1alpha1.Queue{org, a, b, c}
	p.q = p.start()
	return p
}

// start returns what a scheduler that starts now counts, before it tries pods.
func (p *player) start() *schedulerquota.Quota {
	q := counting(p.list)
	q.CallBy(func(pods []*v1.Pod) { p.called = append(p.called, pods...) })
	q.Waiting = func([]*v1.Pod) {}
	for _, uid := range slices.Sorted(maps.Keys(p.pods)) {
		q.Seen(p.pods[uid])
	}
	return q
}

// come creates a pod, or a gang of which all are needed.
func (p *player) come() {
	p.serial++
	size := 1 + max(0, p.chance.IntN(6)-3)
	in, by, gpus := string("abc"[p.chance.IntN(3)]), string("xyz"[p.chance.IntN(3)]), 1+p.chance.Int64N(3)
	var lead *v1.Pod
	for i := range size {
		pod := podOf(fmt.Sprintf("%04d-%d", p.serial, i), in)
		pod.CreationTimestamp = metav1.Unix(int64(1_000_000+p.serial/2), 0)
		priority := int32(p.chance.IntN(2))
		if lead != nil {
			priority = *lead.Spec.Priority
		} else {
			lead = pod
		}
		pod.Spec.Priority = &priority
		list := v1.ResourceList{api.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
		pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: list, Requests: list}
		pod.Annotations = map[string]string{api.AnnotationUser: by}
		if size > 1 {
			pod.Annotations[api.AnnotationGang], pod.Annotations[api.AnnotationGangMinCount] = fmt.Sprint("g", p.serial), fmt.Sprint(size)
		}
		p.set(pod)
	}
	p.called = append(p.called, lead)
}

// set changes a pod, as the watch shows it.
func (p *player) set(pod *v1.Pod) {
	p.pods[pod.UID] = pod
	p.q.Seen(pod)
}

// ask is what a scheduler tries with a pod that leads.
func (p *player) ask(lead *v1.Pod) *schedulerquota.Ask {
	a := schedulerquota.Alone(lead, request.TicketOf(lead))
	if g, _ := request.GangOf(lead); g != nil {
		a.Gang, a.Need, a.Pods = g.Namespace+"/"+g.Name, g.MinCount, nil
		for _, uid := range slices.Sorted(maps.Keys(p.pods)) {
			if queues.Workload(p.pods[uid]) == queues.Workload(lead) {
				a.Pods = append(a.Pods, p.pods[uid])
			}
		}
	}
	return a
}

// settle tries those that are called until none is, and has those that may go on run.
func (p *player) settle() {
	for len(p.called) > 0 {
		lead := p.called[0]
		p.called = p.called[1:]
		if now := p.pods[lead.UID]; now == nil || now.Spec.NodeName != "" {
			continue
		}
		a := p.ask(lead)
		if answer := p.q.Try(a); answer.Refused != "" {
			p.q.Failed(lead)
			continue
		}
		for _, pod := range a.Pods {
			p.q.Reserve(pod, "n")
		}
		for _, pod := range a.Pods {
			p.place(pod)
		}
	}
}

// place binds a pod, and lets it run: both are seen. Sometimes its queue, its user, or its node is another by then.
func (p *player) place(pod *v1.Pod) {
	bound := pod.DeepCopy()
	if bound.Spec.NodeName = "n"; p.chance.IntN(4) > 0 {
		bound.Annotations[api.AnnotationDevices] = `{"main":[]}`
		bound.Labels[v1.LabelTopologyZone] = "z" // as API servers do
	}
	switch p.chance.IntN(16) {
	case 0:
		bound.Labels[api.LabelQueue] = string("abc"[p.chance.IntN(3)])
	case 1:
		bound.Annotations[api.AnnotationUser] = string("xyz"[p.chance.IntN(3)])
	case 2:
		bound.Spec.NodeName = "m"
	}
	p.set(bound)
	runs := bound.DeepCopy()
	runs.Status.Phase, runs.Status.StartTime = v1.PodRunning, &metav1.Time{Time: time.Unix(int64(2_000_000+p.serial), 0)}
	p.set(runs)
}

// end has pods of one workload end, in one of the ways in which they do.
func (p *player) end() {
	uids := slices.Sorted(maps.Keys(p.pods))
	if len(uids) == 0 {
		return
	}
	of := queues.Workload(p.pods[uids[p.chance.IntN(len(uids))]])
	for _, uid := range uids {
		pod := p.pods[uid]
		if queues.Workload(pod) != of {
			continue
		}
		switch later := pod.DeepCopy(); p.chance.IntN(3) {
		case 0:
			later.Status.Phase = v1.PodSucceeded
			p.q.Seen(later)
		case 1:
			later.DeletionTimestamp = &metav1.Time{}
			p.q.Seen(later)
		}
		delete(p.pods, uid)
		p.q.Gone(uid)
	}
}

// lines are the workloads that wait in each queue, in the order of their turns.
func lines(b *quota.Book) map[string][]string {
	out := map[string][]string{}
	for _, name := range b.Tree().Names() {
		for _, w := range b.Waiting(name) {
			out[name] = append(out[name], w.ID)
		}
	}
	return out
}

// TestAfterARestartTheLinesAreTheSame compares what a scheduler has counted over its life with what the next
// one counts from the objects alone, when it has tried each pod once, and with what commands read: the same
// pods hold the same, and the same workloads wait, in the same order.
func TestAfterARestartTheLinesAreTheSame(t *testing.T) {
	waited := 0
	for seed := range uint64(soak.Pick(60, 3000)) {
		p := newPlayer(seed)
		for range 60 {
			if p.chance.IntN(3) > 0 {
				p.come()
			} else {
				p.end()
			}
			p.settle()
		}
		live := p.q
		p.q = p.start()
		if diff := cmp.Diff(live.Book().Holders(), p.q.Book().Holders()); diff != "" {
			t.Fatalf("seed %d: held, -before +after a restart\n%s", seed, diff)
		}
		waiting := slices.DeleteFunc(slices.Collect(maps.Values(p.pods)), func(pod *v1.Pod) bool { return pod.Spec.NodeName != "" })
		slices.SortFunc(waiting, func(a, b *v1.Pod) int { return queue.Compare(request.TicketOf(a), request.TicketOf(b)) })
		place := map[string]int{} // in line: where users take turns, a pod that is tried before one that is late may start
		for _, ids := range lines(live.Book()) {
			for k, id := range ids {
				place[id] = k
			}
		}
		slices.SortStableFunc(waiting, func(a, b *v1.Pod) int { return place[queues.Workload(a)] - place[queues.Workload(b)] })
		for _, pod := range waiting {
			if a := p.ask(pod); a.Pods[0].UID == pod.UID {
				if answer := p.q.Try(a); answer.Refused == "" {
					t.Fatalf("seed %d: %s starts after a restart, and did not before", seed, pod.Name)
				}
			}
		}
		s := &queues.Situation{Queues: p.list, Pods: slices.Collect(maps.Values(p.pods)), Now: time.Now()}
		s.User = func(pod *v1.Pod) string { return user.CountedAs(request.UserOf(pod, nil)) }
		want := lines(live.Book())
		for whose, b := range map[string]*quota.Book{"the next scheduler": p.q.Book(), "commands": queues.Read(s).Book} {
			if diff := cmp.Diff(want, lines(b)); diff != "" {
				t.Fatalf("seed %d: lines, -of this scheduler +of %s\n%s", seed, whose, diff)
			}
		}
		for _, ids := range want {
			waited += len(ids)
		}
	}
	if t.Logf("%d workloads waited", waited); waited < 100 {
		t.Error("too few to show anything")
	}
}
