package queues_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

func TestReadCountsAndLines(t *testing.T) {
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "vision"}, Spec: v1alpha1.QueueSpec{
		Namespaces: &v1alpha1.QueueNamespaces{Names: []string{"vision"}},
		Quotas:     []v1alpha1.QueueQuota{{GPUs: v1alpha1.GPUsAll, Nominal: resource.MustParse("4")}},
	}}
	pod := func(name, node string, gpus int64, gang string) *v1.Pod {
		list := v1.ResourceList{api.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name, UID: types.UID(name)}}
		p.Spec.NodeName = node
		p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: list, Requests: list}}}
		if gang != "" {
			p.Annotations = map[string]string{api.AnnotationGang: gang, api.AnnotationGangMinCount: "2"}
		}
		return p
	}
	ended := pod("ended", "n", 8, "")
	ended.Status.Phase = v1.PodSucceeded
	c := queues.Read(&queues.Situation{
		Queues: []*v1alpha1.Queue{queue},
		Pods: []*v1.Pod{
			pod("runs", "n", 3, ""), ended, pod("fits", "", 1, ""), pod("waits", "", 2, ""),
			pod("g-0", "", 1, "g"), pod("g-1", "", 1, "g"),
		},
	})
	if held := c.Book.Holds("vision")[0]; held != 3*quota.Whole {
		t.Errorf("vision holds %s GPUs, want 3", quota.Text(held))
	}
	var waiting []string
	for _, w := range c.Book.Waiting("vision") {
		waiting = append(waiting, w.ID)
	}
	if len(waiting) != 2 {
		t.Errorf("%v wait, want the pod of 2 GPUs and the gang", waiting)
	}
	if v := c.Verdict(pod("fits", "", 1, "")); v.Cause != quota.None {
		t.Errorf("a pod of 1 GPU: %+v", v)
	}
	if v := c.Verdict(c.Pods(queues.Workload(pod("g-0", "", 1, "g")))[0]); v.Cause != quota.Used || v.Asked != 2*quota.Whole {
		t.Errorf("a gang of 2: %+v", v)
	}
}
