package doctor_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/doctor"
	"berth.dev/berth/kube/kubetest"
)

func TestQueues(t *testing.T) {
	queue := func(name string, edit func(*v1alpha1.QueueSpec)) *v1alpha1.Queue {
		q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}
		q.Spec.Quotas = []v1alpha1.QueueQuota{{GPUs: v1alpha1.GPUsAll, Nominal: resource.MustParse("4")}}
		edit(&q.Spec)
		return q
	}
	takes := func(names ...string) func(*v1alpha1.QueueSpec) {
		return func(s *v1alpha1.QueueSpec) { s.Namespaces = &v1alpha1.QueueNamespaces{Names: names} }
	}
	pod := func(namespace, resource string) *v1.Pod {
		p := kubetest.Pod("p", "", resource, 1)
		p.Namespace = namespace
		return p
	}
	ended := pod("ended", api.ResourceGPU)
	ended.Status.Phase = v1.PodSucceeded
	pods := []*v1.Pod{pod("vision", api.ResourceGPU), pod("speech", api.ResourceGPU), pod("lab", api.ResourceGPU), pod("web", "cpu"), ended}
	tests := map[string]struct {
		queues []*v1alpha1.Queue
		want   string
	}{
		"a cluster without Queues": {nil, ""},
		"every pod with GPUs is in a queue": {
			[]*v1alpha1.Queue{queue("a", takes("vision", "speech")), queue("b", takes("lab"))},
			"ok queues: 2 Queues take the pods that request GPUs, in every namespace",
		},
		"one Queue takes all": {
			[]*v1alpha1.Queue{queue("a", func(s *v1alpha1.QueueSpec) { s.Default = true })},
			"ok queues: 1 Queue takes the pods that request GPUs, in every namespace",
		},
		"namespaces of no queue": {
			[]*v1alpha1.Queue{queue("a", takes("vision"))},
			"warn queues: 2 namespaces with pods that request GPUs are in no queue, and no quota counts them: lab, speech",
		},
		"a namespace that two queues claim, and a parent that is not there": {
			[]*v1alpha1.Queue{queue("a", takes("vision", "speech", "lab")), queue("b", takes("lab")), queue("c", func(s *v1alpha1.QueueSpec) { s.Parent = "d" })},
			`warn queues: queue a: spec.namespaces.names: Queue b names namespace lab, too; this one is older, and counts
warn queues: queue b: spec.namespaces.names: Queue a, which is older, names namespace lab, too; it counts there
warn queues: queue c: spec.parent: there is no Queue "d"`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for _, f := range doctor.Examine(doctor.Cluster{Pods: pods, Queues: tt.queues, Now: now}) {
				if f.Name == "queues" {
					lines = append(lines, string(f.Status)+" queues: "+f.Seen)
				}
			}
			if got := strings.Join(lines, "\n"); got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}
