package explain_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/runs"
)

// BenchmarkStarts is one estimate of when all start that wait: 10,000 gangs of two pods with four GPUs each, in 1,000 queues,
// on 1,000 nodes of eight GPUs that 1,000 gangs hold. Every queue has its own user, and 64 runs of it are known, from one
// minute to over a day.
func BenchmarkStarts(b *testing.B) {
	const queueCount, nodes, waiting = 1000, 1000, 10000
	s := &explain.Situation{RunTimes: queue.NewRunTimes()}
	quotas := func(n int) []v1alpha1.QueueQuota {
		return []v1alpha1.QueueQuota{{GPUs: v1alpha1.GPUsAll, Nominal: *resource.NewQuantity(int64(n), resource.DecimalSI)}}
	}
	all := []*v1alpha1.Queue{{ObjectMeta: metav1.ObjectMeta{Name: "org"}, Spec: v1alpha1.QueueSpec{Quotas: quotas(8 * nodes)}}}
	for i := range queueCount {
		all = append(all, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("team-", i)}, Spec: v1alpha1.QueueSpec{
			Parent: "org", Namespaces: &v1alpha1.QueueNamespaces{LabeledPods: []string{"*"}}, Quotas: quotas(8 * nodes / queueCount),
		}})
	}
	member := func(gang, k int) *v1.Pod {
		p := kubetest.Pod(fmt.Sprintf("g%05d-%d", gang, k), "", "cpu", 4, api.ResourceGPU, 4)
		p.Labels[api.LabelQueue] = fmt.Sprint("team-", gang%queueCount)
		p.Annotations[api.AnnotationGang], p.Annotations[api.AnnotationGangMinCount] = fmt.Sprintf("g%05d", gang), "2"
		p.Annotations[api.AnnotationUser] = fmt.Sprint("user-", gang%queueCount)
		p.CreationTimestamp = metav1.NewTime(kubetest.Started.Add(time.Duration(gang) * time.Second))
		return p
	}
	for i := range nodes {
		name := fmt.Sprintf("n-%04d", i)
		s.Nodes = append(s.Nodes, kubetest.Inventory(name, kubetest.A100s(name, 8), "cpu", 96, "memory", 1<<40, "pods", 110, api.ResourceGPU, 8))
		for k := range 2 {
			var ids []string
			for g := range 4 {
				ids = append(ids, fmt.Sprintf("GPU-%s-%d", name, 4*k+g))
			}
			p := kubetest.Observed(member(i, k), api.ResourceGPU, ids...)
			p.Spec.NodeName = name
			s.Pods = append(s.Pods, p)
		}
		for n := range 64 {
			s.RunTimes.Ended(runs.TemplateOf(s.Pods[len(s.Pods)-1]), time.Minute<<(n*(1+i%10)/64))
		}
	}
	for i := range waiting {
		for k := range 2 {
			p := member(nodes+i, k)
			p.Status = v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse}}}
			s.Pods = append(s.Pods, p)
		}
	}
	s.Queues = queues.Read(&queues.Situation{Queues: all, Namespaces: []*v1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}}, Nodes: s.Nodes, Pods: s.Pods})
	for b.Loop() {
		starts, err := s.Starts(kubetest.Started.Add(waiting * time.Second))
		if err != nil || len(starts) < waiting/2 {
			b.Fatal(len(starts), err)
		}
	}
}
