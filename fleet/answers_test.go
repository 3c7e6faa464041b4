package fleet

import (
	"log/slog"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/fleet/spec"
)

// oneNode is a fleet that does not run, with a node of one GPU, as the API server
// has it. Nothing is in its queue.
func oneNode(t *testing.T) (*Fleet, *fake.Clientset, *v1.Node) {
	t.Helper()
	client := fake.NewClientset()
	f, err := New(Options{Client: client, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	product, _ := gpu.Find("NVIDIA A100-SXM4-40GB")
	obj, err := spec.Kubernetes(spec.Node{Name: "n1", CPU: 8, MemoryGiB: 64, Pods: 10, GPUs: gpu.New("n1", product, 1)}, "10.64.0.1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	obj.ResourceVersion = "10"
	if err := f.adopt(obj.DeepCopy(), nil); err != nil {
		t.Fatal(err)
	}
	f.drain()
	return f, client, obj
}

// drain empties the queue, and returns what was in it.
func (f *Fleet) drain() []task {
	var out []task
	for f.queue.Len() > 0 {
		t, _ := f.queue.Get()
		f.queue.Done(t)
		out = append(out, t)
	}
	return out
}

// A person breaks a GPU while the fleet patches the node: the answer to the patch
// has the fault already, and the watch reports it after the answer, in a version
// that is older than the answer's.
func TestAFaultThatTheAnswerToAPatchTellsOfIsInForce(t *testing.T) {
	f, client, obj := oneNode(t)
	broken := obj.DeepCopy()
	broken.ResourceVersion, broken.Annotations[api.AnnotationFaults] = "11", `["xid-79/0"]`
	broken.Labels[api.LabelPluginConfig] = "shared"
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		answer := broken.DeepCopy()
		answer.ResourceVersion = "12"
		return true, answer, nil
	})
	n := f.find("n1")
	if err := n.patch(t.Context(), types.MergePatchType, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	f.sawNode(broken)
	if n.faults.xid[0] != 79 || n.gpus[0].Healthy || n.config.key != "shared" {
		t.Errorf("faults are %+v, GPU 0 is healthy: %v, the plugin's configuration is %q; want Xid 79, false, shared", n.faults, n.gpus[0].Healthy, n.config.key)
	}
	healed := obj.DeepCopy()
	healed.ResourceVersion = "9"
	f.sawNode(healed) // what is old is not news
	if n.faults.xid[0] != 79 {
		t.Error("an old version of the node heals it")
	}
}

// The same with a user who changes an image, or adds a container to debug with,
// while the fleet writes the pod's status.
func TestWhatTheAnswerToAWriteAsksForIsDone(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "uid", Generation: 1, ResourceVersion: "20"},
		Spec:       v1.PodSpec{NodeName: "n1", Containers: []v1.Container{{Name: "c", Image: "x:1"}}},
	}
	for name, change := range map[string]func(*v1.Pod){
		"another image": func(p *v1.Pod) { p.Generation, p.Spec.Containers[0].Image = 2, "x:2" },
		"a container to debug with": func(p *v1.Pod) {
			p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "d", Image: "y"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, _, _ := oneNode(t)
			f.sawPod(pod.DeepCopy())
			if len(f.drain()) != 1 {
				t.Fatal("a new pod is not worked on")
			}
			p := f.find("n1").pods["uid"]
			changed, answer := pod.DeepCopy(), pod.DeepCopy()
			change(changed)
			changed.ResourceVersion = "21"
			change(answer)
			answer.ResourceVersion = "22"
			p.wrote(answer, &v1.PodStatus{})
			f.sawPod(changed)
			if got := f.drain(); len(got) != 1 || got[0] != p {
				t.Errorf("to be worked on are %v, want the pod", got)
			}
			answer = answer.DeepCopy()
			answer.ResourceVersion = "23"
			p.wrote(answer, &v1.PodStatus{})
			if got := f.drain(); len(got) != 0 {
				t.Errorf("a write that changes nothing causes work: %v", got)
			}
		})
	}
}
