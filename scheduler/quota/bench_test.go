package quota_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
	schedulerquota "berth.dev/berth/scheduler/quota"
	"berth.dev/berth/scheduler/quota/informer"
)

// BenchmarkPod is what quotas cost the scheduler for one pod that gets a node, among 1,000 queues:
// from its creation until it runs, and for its end.
func BenchmarkPod(b *testing.B) {
	for _, waiting := range []int{0, 2500, 10000} {
		b.Run(fmt.Sprintf("%d wait", waiting), func(b *testing.B) {
			const queues = 500
			list := []*v1alpha1.Queue{queueOf("busy", "", 4*queues), queueOf("full", "", 1)}
			for i := range queues {
				list = append(list, queueOf(fmt.Sprint("busy-", i), "busy", 4), queueOf(fmt.Sprint("full-", i), "full", 0))
			}
			q := counting(list)
			for i := range waiting + 1 {
				pod := podOf(fmt.Sprint("wait-", i), fmt.Sprint("full-", i%queues))
				q.Seen(pod)
				if answer := q.Try(schedulerquota.Alone(pod, request.TicketOf(pod))); (answer.Refused == "") != (i == 0) {
					b.Fatal(i, answer)
				} else if answer.Refused == "" {
					q.Reserve(pod, "n")
				} else {
					q.Failed(pod)
				}
			}
			loads := make([]life, 2*queues)
			for i := range loads {
				loads[i] = lifeOf(podOf(fmt.Sprint("load-", i), fmt.Sprint("busy-", i%queues)))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				loads[i%len(loads)].lives(b, q)
			}
		})
	}
}

// life is the versions of a pod: as it is created, with a node, and when it runs.
type life struct{ created, bound, runs *v1.Pod }

func lifeOf(pod *v1.Pod) life {
	bound := pod.DeepCopy()
	bound.Spec.NodeName = "n"
	if bound.Annotations == nil {
		bound.Annotations = map[string]string{}
	}
	bound.Annotations[api.AnnotationDevices] = `{"main":[{"uuid":"GPU-n-0","milliGPU":1000,"memoryBytes":42949672960}]}`
	bound.Labels[v1.LabelTopologyZone] = "z" // as API servers do
	runs, now := bound.DeepCopy(), metav1.Now()
	runs.Status.Phase, runs.Status.StartTime = v1.PodRunning, &now
	return life{pod, bound, runs}
}

// lives has a pod come, be placed, run, and end.
func (l *life) lives(b *testing.B, q *schedulerquota.Quota) {
	pod := l.created
	q.Seen(pod)
	if !q.Lets(pod.UID) {
		b.Fatal("the pod waits")
	}
	if answer := q.Try(schedulerquota.Alone(pod, request.TicketOf(pod))); answer.Refused != "" {
		b.Fatal(answer)
	}
	q.QueueOf(pod)
	q.Allowed(pod.UID)
	q.Reserve(pod, "n")
	q.Bound(pod)
	q.Seen(l.bound)
	q.Seen(l.runs)
	q.Gone(pod.UID)
}

// counting returns a Quota of these Queues, on one node.
func counting(list []*v1alpha1.Queue) *schedulerquota.Quota {
	of := func(objects ...any) cache.Indexer {
		store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		for _, o := range objects {
			_ = store.Add(o)
		}
		return store
	}
	q := schedulerquota.New()
	nodes := of(kubetest.Inventory("n", kubetest.A100s("n", 8), api.ResourceGPU, 8))
	namespaces := of(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	informer.New(q, corelisters.NewNodeLister(nodes), corelisters.NewNamespaceLister(namespaces)).Apply(list)
	return q
}

func queueOf(name, parent string, gpus int) *v1alpha1.Queue {
	return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
		Parent: parent, Namespaces: &v1alpha1.QueueNamespaces{LabeledPods: []string{"*"}},
		Quotas: []v1alpha1.QueueQuota{{GPUs: v1alpha1.GPUsAll, Nominal: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}},
	}}
}

func podOf(name, queue string) *v1.Pod {
	list := v1.ResourceList{api.ResourceGPU: *resource.NewQuantity(1, resource.DecimalSI), v1.ResourceCPU: resource.MustParse("1")}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{api.LabelQueue: queue}}}
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: list, Requests: list}}}
	return p
}
