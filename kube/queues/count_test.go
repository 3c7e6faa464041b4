package queues_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

// vision is a Queue of namespace vision.
func vision(nominal string) *v1alpha1.Queue {
	return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "vision"}, Spec: v1alpha1.QueueSpec{
		Namespaces: &v1alpha1.QueueNamespaces{Names: []string{"vision"}},
		Quotas:     []v1alpha1.QueueQuota{{GPUs: v1alpha1.GPUsAll, Nominal: resource.MustParse(nominal)}},
	}}
}

// asking is a pod in namespace vision, on a node if that is not "", of a gang of two if that is not "".
func asking(name, node string, gpus int64, gang string) *v1.Pod {
	list := v1.ResourceList{api.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name, UID: types.UID(name)}}
	p.Spec.NodeName = node
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: list, Requests: list}}}
	if gang != "" {
		p.Annotations = map[string]string{api.AnnotationGang: gang, api.AnnotationGangMinCount: "2"}
	}
	return p
}

// lineOf is the workloads that wait in a queue, sorted, with the names of their pods.
func lineOf(c *queues.Count, queue string) (line []string) {
	for _, w := range c.Book.Waiting(queue) {
		text := ""
		for _, p := range c.Pods(w.ID) {
			text += " " + p.Name
		}
		line = append(line, w.ID+":"+text)
	}
	slices.Sort(line)
	return line
}

// TestEachMemberBeyondTheLeastWaitsAlone: the gang runs, and has no more quota for three of its pods.
func TestEachMemberBeyondTheLeastWaitsAlone(t *testing.T) {
	c := queues.Read(&queues.Situation{Queues: []*v1alpha1.Queue{vision("2")}, Pods: []*v1.Pod{
		asking("g-0", "n", 1, "g"), asking("g-1", "n", 1, "g"), asking("g-2", "", 1, "g"), asking("g-3", "", 1, "g"), asking("g-4", "", 1, "g"),
	}})
	if diff := cmp.Diff([]string{"g-2: g-2", "g-3: g-3", "g-4: g-4"}, lineOf(c, "vision")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestPodsOfAGangCountForTheirOwnUserAndQueue: kueue's issue 14630 is of pods that join the workload of
// another, and count as that.
func TestPodsOfAGangCountForTheirOwnUserAndQueue(t *testing.T) {
	q, shared := vision("8"), queueOf("shared", 0, takes(v1alpha1.QueueNamespaces{LabeledPods: []string{"vision"}}))
	q.Spec.PerUser = []v1alpha1.QueueLimit{{GPUs: v1alpha1.GPUsAll, Max: resource.MustParse("1")}}
	mine, joins, labeled := asking("a-0", "", 1, "a"), asking("a-1", "", 2, "a"), asking("b-1", "", 1, "b")
	labeled.Labels = map[string]string{api.LabelQueue: "shared"}
	c := queues.Read(&queues.Situation{
		Queues: []*v1alpha1.Queue{q, shared}, Pods: []*v1.Pod{mine, joins, asking("b-0", "", 1, "b"), labeled},
		User: func(p *v1.Pod) string { return map[string]string{"a-0": "ann", "a-1": "bob"}[p.Name] },
	})
	if v := c.Verdict(mine); v.Cause != quota.UserLimit || v.User != "bob" || v.Asked != 2*quota.Whole {
		t.Errorf("the gang that another's pod has joined: %+v", v)
	}
	if v := c.Verdict(labeled); v.Cause != quota.Mixed || v.Queue != "shared" || v.Other != "vision" {
		t.Errorf("the gang of two queues: %+v", v)
	}
}

func TestReadCountsAndLines(t *testing.T) {
	queue, pod := vision("4"), asking
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
