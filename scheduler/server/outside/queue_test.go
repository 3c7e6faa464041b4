package outside_test

import (
	"context"
	"fmt"
	"testing"

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

	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/devices"
	schedulerquota "berth.dev/berth/scheduler/quota"
	"berth.dev/berth/scheduler/server/outside"
	"berth.dev/berth/scheduler/state"
)

// rig is a queue of kube-scheduler, with a queue "red" that has so many GPUs.
type rig struct {
	*outside.Queue
	inner *queue.PriorityQueue
	pods  cache.Indexer
	state *state.State
	quota *schedulerquota.Quota
}

// keeper keeps what is not to be tried, as a plugin does.
type keeper struct {
	name string
	lets func(types.UID) bool
}

func (k keeper) Name() string { return k.name }

func (k keeper) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if k.lets(pod.UID) {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not now")
}

func newRig(t testing.TB, gpus int64) *rig {
	metrics.Register()
	r := &rig{state: state.NewState(), pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
	r.quota = r.state.Quota
	plugin := keeper{devices.QueuesName, r.quota.Lets}
	anything := func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.Queue, nil }
	hints := queue.QueueingHintMap{{Resource: fwk.Pod, ActionType: fwk.Add}: {{PluginName: "other", QueueingHintFn: anything}}}
	r.inner = queue.NewTestQueue(t.Context(), func(a, b fwk.QueuedPodInfo) bool { return a.GetTimestamp().Before(b.GetTimestamp()) },
		queue.WithPreEnqueuePluginMap(map[string]map[string]fwk.PreEnqueuePlugin{"s": {plugin.Name(): plugin}}), queue.WithQueueingHintMapPerProfile(queue.QueueingHintMapPerProfile{"s": hints}))
	s := &scheduler.Scheduler{SchedulingQueue: r.inner}
	r.Queue = outside.Use(s, corelisters.NewPodLister(r.pods), r.state)
	pieces := func(*v1.Pod) []quota.Piece { return []quota.Piece{{Devices: 1, Parts: quota.Whole}} }
	r.quota.SetQueues([]quota.Spec{{Name: "red", Quotas: []quota.Quota{{Resource: quota.GPUs, Nominal: gpus * quota.Whole, Borrowing: quota.Unlimited, Lending: quota.Unlimited}}}}, queues.Reader{
		Queue: func(*v1.Pod) string { return "red" }, User: func(*v1.Pod) string { return "" },
		Held: func(p *v1.Pod, _ string) []quota.Piece { return pieces(p) },
		Asked: func(p *v1.Pod, _ sharing.Ways) (quota.Pod, []quota.Kind) {
			return quota.Pod{ID: string(p.UID), Pieces: pieces(p)}, nil
		},
	})
	return r
}

// come creates a pod and has it tried: without quota it is refused.
func (r *rig) come(t testing.TB, name string) *v1.Pod {
	pod := kubetest.Pod(name, "", "nvidia.com/gpu", 1)
	pod.UID, pod.Spec.SchedulerName, pod.CreationTimestamp = types.UID("uid-"+name), "s", metav1.Unix(1_000_000, 0)
	_ = r.pods.Add(pod)
	r.quota.Seen(pod)
	r.Add(t.Context(), pod)
	r.try(t)
	return pod
}

// try has the first pod of the queue tried, and calls during before it is known whether there is a place.
func (r *rig) try(t testing.TB, during ...func(*v1.Pod)) {
	info, err := r.Pop(klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	if r.quota.Try(schedulerquota.Alone(info.Pod, request.TicketOf(info.Pod))).Refused == "" {
		r.quota.Reserve(info.Pod, "n")
		r.Done(info.Pod.UID)
		return
	}
	for _, do := range during {
		do(info.Pod)
	}
	info.UnschedulablePlugins.Insert(devices.QueuesName)
	if err := r.AddUnschedulableIfNotPresent(klog.Background(), info, r.SchedulingCycle()); err != nil {
		t.Fatal(err)
	}
	r.state.Waits.Failed(info.Pod)
}

// are checks where the pods are.
func (r *rig) are(t *testing.T, when string, active, inner, all int) {
	t.Helper()
	in, _ := r.inner.PendingPods()
	everywhere, text := r.PendingPods()
	if len(r.PodsInActiveQ()) != active || len(in) != inner || len(everywhere) != all {
		t.Errorf("%s: %d active, %d in kube-scheduler's queue, %d in all (%s); want %d, %d, %d", when, len(r.PodsInActiveQ()), len(in), len(everywhere), text, active, inner, all)
	}
}

func TestPodsThatWaitAreOutside(t *testing.T) {
	r := newRig(t, 1)
	runs, a, b, c := r.come(t, "runs"), r.come(t, "a"), r.come(t, "b"), r.come(t, "c")
	r.are(t, "three wait", 0, 0, 3)
	r.Activate(klog.Background(), map[string]*v1.Pod{"default/a": a})
	r.are(t, "one that waits is activated, and its turn comes", 1, 1, 3)
	r.try(t)
	r.are(t, "the pod has been tried, and waits again", 0, 0, 3)
	changed := b.DeepCopy()
	changed.Labels, changed.ResourceVersion = map[string]string{"new": "yes"}, "2"
	_ = r.pods.Update(changed)
	r.Update(t.Context(), b, changed)
	r.are(t, "one is changed", 0, 0, 3)
	_ = r.pods.Delete(c)
	r.quota.Gone(c.UID)
	r.Delete(c)
	r.are(t, "one is deleted", 0, 0, 2)
	r.quota.Gone(runs.UID)
	r.Activate(klog.Background(), map[string]*v1.Pod{"default/a": a})
	r.are(t, "the first is called", 1, 1, 2)
	r.try(t)
	r.are(t, "the first has started", 0, 0, 1)
	r.quota.SetQueues(nil, queues.Reader{})
	r.Activate(klog.Background(), map[string]*v1.Pod{"default/b": b})
	r.are(t, "there are no queues any longer", 1, 1, 1)
	if info, err := r.Pop(klog.Background()); err != nil || info.Pod.Labels["new"] != "yes" {
		t.Errorf("the pod is tried as it was before the change: %v, %v", info.Pod.Labels, err)
	}
}

// TestAPodThatIsActivatedWhileItIsTriedIsTriedOnceMore has the reason to try it again come while it is found that
// there is no quota, as when preemption saw nodes that were behind.
func TestAPodThatIsActivatedWhileItIsTriedIsTriedOnceMore(t *testing.T) {
	r := newRig(t, 1)
	r.come(t, "runs")
	a := r.come(t, "a")
	activate := func(p *v1.Pod) { r.Activate(klog.Background(), map[string]*v1.Pod{"default/" + p.Name: p}) }
	activate(a)
	r.try(t, activate)
	r.are(t, "the pod was activated while it was tried: kube-scheduler waits a moment first", 0, 1, 1)
	activate(a)
	r.try(t)
	r.are(t, "the pod was tried once more", 0, 0, 1)
}

// TestNominatedPodsStay has a pod wait for quota on whose nominated node others count.
func TestNominatedPodsStay(t *testing.T) {
	r := newRig(t, 0)
	a := r.come(t, "a")
	r.are(t, "a pod waits", 0, 0, 1)
	r.Delete(a)
	a = a.DeepCopy()
	a.Status.NominatedNodeName = "n"
	_ = r.pods.Update(a)
	r.Add(t.Context(), a)
	r.quota.Waiting([]*v1.Pod{a})
	r.are(t, "its node is nominated", 0, 1, 1)
}

// BenchmarkEvent is what a binding costs kube-scheduler's queue beside pods that wait: in that queue, kept
// by PreEnqueue, and outside.
func BenchmarkEvent(b *testing.B) {
	for _, n := range []int{0, 2500, 10000} {
		for _, out := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d wait, outside %v", n, out), func(b *testing.B) {
				r := newRig(b, 0)
				if !out {
					r.quota.Waiting = func(pods []*v1.Pod) { r.inner.Activate(klog.Background(), map[string]*v1.Pod{"p": pods[0]}) }
				}
				for i := range n {
					r.come(b, fmt.Sprint("p", i))
				}
				bound := kubetest.Pod("bound", "n", "nvidia.com/gpu", 1)
				for b.Loop() {
					r.MoveAllToActiveOrBackoffQueue(klog.Background(), framework.EventAssignedPodAdd, nil, bound, nil)
				}
			})
		}
	}
}
