package outside_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	core "berth.dev/berth/core/queue"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/devices"
	"berth.dev/berth/scheduler/server/outside"
	"berth.dev/berth/scheduler/state"
	"berth.dev/berth/test/soak"
)

// turns is a scheduler of pods of which each has a key, and of whose keys each has room for so many.
type turns struct {
	t     testing.TB
	queue queue.SchedulingQueue
	inner *queue.PriorityQueue
	pods  cache.Indexer
	state *state.State
	over  map[types.UID]int64 // what Rank is about
	room  map[string]int
	bound map[string]*v1.Pod
	log   []string
	n     int
}

// newTurns makes a scheduler with kube-scheduler's queue alone, whose PreEnqueue keeps what waits for its turn, or with
// a queue outside of it.
func newTurns(t testing.TB, out bool) *turns {
	metrics.Register()
	s := &turns{t: t, state: state.NewState(), pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), over: map[types.UID]int64{}, room: map[string]int{}, bound: map[string]*v1.Pod{}}
	lines := s.state.Waiting
	lines.Ticket = func(p *v1.Pod) core.Ticket {
		t := request.TicketOf(p)
		t.Over = s.over[p.UID]
		return t
	}
	lines.Call = func(p *v1.Pod) { s.activate(p) }
	plugin := keeper{devices.WaitingName, lines.Lets}
	anything := func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.Queue, nil }
	hints := queue.QueueingHintMap{{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.UpdatePodLabel}: {{PluginName: devices.Name, QueueingHintFn: anything}}}
	done := make(chan struct{})
	close(done)
	s.inner = queue.NewTestQueue(t.Context(), func(a, b fwk.QueuedPodInfo) bool {
		return core.Compare(lines.Ticket(a.GetPodInfo().GetPod()), lines.Ticket(b.GetPodInfo().GetPod())) < 0
	}, queue.WithPreEnqueuePluginMap(map[string]map[string]fwk.PreEnqueuePlugin{"s": {plugin.Name(): plugin}}), queue.WithQueueingHintMapPerProfile(queue.QueueingHintMapPerProfile{"s": hints}),
		queue.WithPodLister(corelisters.NewPodLister(s.pods)), queue.WithPodInitialBackoffDuration(1), queue.WithPodMaxBackoffDuration(1), queue.WithMetricsRecorder(metrics.NewMetricsAsyncRecorder(1, time.Second, done)))
	s.queue = s.inner
	lines.Moved = func(p *v1.Pod) {
		if lines.Lets(p.UID) {
			s.activate(p)
		}
	}
	if out {
		s.queue = outside.Use(&scheduler.Scheduler{SchedulingQueue: s.inner}, corelisters.NewPodLister(s.pods), s.state)
	}
	return s
}

func (s *turns) activate(p *v1.Pod) {
	s.queue.Activate(klog.Background(), map[string]*v1.Pod{p.Namespace + "/" + p.Name: p})
}

func key(p *v1.Pod) string { return p.Labels["key"] }

// come creates a pod.
func (s *turns) come(key string, priority int32) *v1.Pod {
	s.n++
	p := kubetest.Pod(fmt.Sprintf("p%03d", s.n), "", "nvidia.com/gpu", 1)
	p.UID, p.Spec.SchedulerName, p.Spec.Priority, p.CreationTimestamp = types.UID("uid-"+p.Name), "s", &priority, metav1.Unix(int64(s.n), 0)
	p.Labels = map[string]string{"key": key}
	_ = s.pods.Add(p)
	s.queue.Add(s.t.Context(), p)
	return p
}

// change changes a pod that waits, as the watches of the lines and of the queue hear of it, in either order.
func (s *turns) change(was *v1.Pod, queueFirst bool, do func(*v1.Pod)) *v1.Pod {
	now := was.DeepCopy()
	now.ResourceVersion = fmt.Sprint(s.n, now.ResourceVersion)
	do(now)
	_ = s.pods.Update(now)
	seen := func() {
		if key(was) != key(now) && s.state.Waiting.Knows(now.UID) {
			s.state.Waiting.Leave(now.UID)
			s.state.Waiting.Call(now)
		}
	}
	if queueFirst {
		s.queue.Update(s.t.Context(), was, now)
	}
	seen()
	if !queueFirst {
		s.queue.Update(s.t.Context(), was, now)
	}
	return now
}

// gone deletes a pod that waits.
func (s *turns) gone(p *v1.Pod, queueFirst bool) {
	_ = s.pods.Delete(p)
	if queueFirst {
		s.queue.Delete(p)
	}
	s.state.Waiting.Leave(p.UID)
	if !queueFirst {
		s.queue.Delete(p)
	}
}

// ends has a pod end that was bound.
func (s *turns) ends(name string) {
	p := s.bound[name]
	delete(s.bound, name)
	s.room[key(p)]++
	s.queue.MoveAllToActiveOrBackoffQueue(klog.Background(), framework.EventAssignedPodDelete, p, nil, nil)
}

// settle tries pods until none is to be tried any longer.
func (s *turns) settle() {
	for range 100 {
		for _, p := range s.inner.PodsInBackoffQ() {
			s.inner.Activate(klog.Background(), map[string]*v1.Pod{p.Namespace + "/" + p.Name: p}) // its backoff has ended
		}
		if len(s.inner.PodsInActiveQ()) == 0 {
			return
		}
		s.try()
	}
	s.t.Error("100 pods were tried, and there are more to try")
}

// try tries the first pod of the queue, as the plugin BerthDevices does.
func (s *turns) try() {
	info, err := s.queue.Pop(klog.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	pod, lines := info.Pod, s.state.Waiting
	fits := s.room[key(pod)] > 0
	if fits {
		if lines.First(pod, key(pod)) == nil {
			s.room[key(pod)]--
			bound := pod.DeepCopy()
			bound.Spec.NodeName = "n"
			s.bound[pod.Name] = bound
			_ = s.pods.Update(bound)
			s.queue.Done(pod.UID)
			s.log = append(s.log, pod.Name)
			return
		}
		lines.Yield(pod, key(pod))
	} else {
		lines.Join(pod, key(pod), nil)
	}
	info.UnschedulablePlugins.Insert(devices.Name)
	if err := s.queue.AddUnschedulableIfNotPresent(klog.Background(), info, s.queue.SchedulingCycle()); err != nil {
		s.t.Fatal(err)
	}
	s.state.Waits.Failed(pod)
}

// waiting lists the pods without a node, by name.
func (s *turns) waiting() (out []*v1.Pod) {
	for _, o := range s.pods.List() {
		if p := o.(*v1.Pod); p.Spec.NodeName == "" {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// step does one thing by chance.
func (s *turns) step(rng *rand.Rand) {
	waiting, order := s.waiting(), rng.IntN(2) == 0
	pick, dice := rng.IntN(max(1, len(waiting))), rng.IntN(12)
	other := fmt.Sprint("k", rng.IntN(3))
	over, priority, end := int64(rng.IntN(3000)), int32(10*rng.IntN(3)), rng.IntN(1000)
	if dice < 4 || len(waiting) == 0 {
		s.come(other, priority)
		return
	}
	p := waiting[pick]
	switch dice {
	case 4, 5:
		if names := slices.Sorted(maps.Keys(s.bound)); len(names) > 0 {
			s.ends(names[end%len(names)])
		}
	case 6:
		s.gone(p, order)
	case 7:
		s.change(p, order, func(p *v1.Pod) { p.Labels["key"] = other })
	case 8:
		s.over[p.UID] = over
		s.state.Waiting.Ranked(s.state.Waiting.Rank(p.UID))
	case 9:
		s.change(p, order, func(p *v1.Pod) {
			p.Status.NominatedNodeName = map[bool]string{true: "n"}[p.Status.NominatedNodeName == ""]
		})
	case 10:
		s.activate(p)
	case 11:
		if order {
			s.state.Waiting.Wake()
		} else {
			s.state.Waiting.Leave(p.UID) // as where room is made for it
		}
	}
}

// check fails the test if a pod waits although there is room for it. It also checks that kube-scheduler's queue has only those that are to be tried
// when something happens, or are nominated.
func (s *turns) check(what string) {
	s.t.Helper()
	var want []string
	for _, p := range s.waiting() {
		if s.room[key(p)] > 0 {
			s.t.Errorf("%s: %s waits, and there is room for %d of its key", what, p.Name, s.room[key(p)])
		}
		if s.state.Waiting.Lets(p.UID) || p.Status.NominatedNodeName != "" {
			want = append(want, p.Name)
		}
	}
	var inside []string
	pods, _ := s.inner.PendingPods()
	for _, p := range pods {
		inside = append(inside, p.Name)
	}
	if slices.Sort(inside); s.queue != queue.SchedulingQueue(s.inner) && !slices.Equal(inside, want) {
		s.t.Errorf("%s: kube-scheduler's queue has %v, want %v", what, inside, want)
	}
	all, text := s.queue.PendingPods()
	if len(all) != len(s.waiting()) {
		s.t.Errorf("%s: %d pods are pending (%s), want %d", what, len(all), text, len(s.waiting()))
	}
}

// TestPodsGetTheirTurnsOutsideAsInside has what happens to pods in lines happen by chance to two schedulers, of which one keeps
// all of them in kube-scheduler's queue: both bind the same pods, in the same order.
func TestPodsGetTheirTurnsOutsideAsInside(t *testing.T) {
	soak.Plainly(t)
	most := 0
	for seed := range uint64(soak.Pick(40, 2000)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			in, out := newTurns(t, false), newTurns(t, true)
			of := map[*turns]*rand.Rand{in: rand.New(rand.NewPCG(seed, 1)), out: rand.New(rand.NewPCG(seed, 1))}
			for i := range 3 {
				in.room[fmt.Sprint("k", i)], out.room[fmt.Sprint("k", i)] = 2, 2
			}
			for step := range 60 {
				for s, rng := range of {
					s.step(rng)
					s.settle()
				}
				out.check(fmt.Sprintf("seed %d, step %d", seed, step))
				if d := diff.Diff(in.log, out.log); d != "" || t.Failed() {
					t.Fatalf("seed %d, step %d: -inside +outside\n%s", seed, step, d)
				}
			}
			most = max(most, len(out.waiting()))
		})
		if t.Failed() {
			return
		}
	}
	if t.Logf("at most %d pods waited", most); most < 5 {
		t.Error("too few to show anything")
	}
}

func TestOnlyTheFirstOfALineStaysInside(t *testing.T) {
	s := newTurns(t, true)
	is := func(when string, inside, all int, says string) {
		t.Helper()
		in, _ := s.inner.PendingPods()
		pods, text := s.queue.PendingPods()
		if len(in) != inside || len(pods) != all || !strings.HasSuffix(text, says) {
			t.Errorf("%s: %d inside of %d (%s), want %d of %d, %s", when, len(in), len(pods), text, inside, all, says)
		}
	}
	a, b, c := s.come("k", 10), s.come("k", 10), s.come("k", 10)
	s.settle()
	is("three wait", 1, 3, "waiting for their turn:2")
	s.activate(c)
	is("one is activated whose turn it is not", 1, 3, "waiting for their turn:2")
	d := s.come("k", 20)
	s.settle()
	is("one comes that is first", 1, 4, "waiting for their turn:3")
	s.gone(d, false)
	is("the first is deleted, and the next is called", 1, 3, "waiting for their turn:2")
	s.settle()
	c = s.change(c, true, func(p *v1.Pod) { p.Status.NominatedNodeName = "n" })
	is("a node is nominated for one", 2, 3, "waiting for their turn:1")
	if got := s.queue.NominatedPodsForNode("n"); len(got) != 1 || got[0].GetPod().UID != c.UID {
		t.Errorf("nominated for the node are %v", got)
	}
	s.change(c, true, func(p *v1.Pod) { p.Status.NominatedNodeName = "" })
	is("the nomination ends", 1, 3, "waiting for their turn:2")
	s.state.Waiting.Leave(b.UID)
	is("one leaves its line", 2, 3, "waiting for their turn:1")
	s.room["k"] = 3
	s.state.Waiting.Wake()
	s.settle()
	is("there is room for all", 0, 0, "waiting for their turn:0")
	if want := []string{a.Name, b.Name, c.Name}; !slices.Equal(slices.Sorted(slices.Values(s.log)), want) {
		t.Errorf("bound %v, want %v", s.log, want)
	}
}
