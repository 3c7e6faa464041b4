package devices_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/scheduler/devices"
)

// edited is a node with two T4 that edit has changed.
func edited(t *testing.T, name string, edit func(*v1.Node)) *v1.Node {
	n := t4Node(t, name, 2, gpu.Sharing{})
	n.Labels = map[string]string{}
	edit(n)
	return n
}

// foreign is a node that publishes no devices, and offers n GPUs.
func foreign(name string, n int64) *v1.Node {
	amounts := v1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("10")}
	if n > 0 {
		amounts[api.ResourceGPU] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: amounts, Capacity: amounts}}
}

func plain(*v1.Node) {}

// TestOneNodeIsNamed says which node PreFilter leaves, or why there is none.
func TestOneNodeIsNamed(t *testing.T) {
	cordoned := func(n *v1.Node) { n.Spec.Unschedulable = true }
	tainted := func(e v1.TaintEffect) func(*v1.Node) {
		return func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: api.ResourceGPU, Effect: e}} }
	}
	small := func(n *v1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("1") }
	full := func(n *v1.Node) { n.Status.Allocatable["pods"] = resource.MustParse("1") }
	zone := func(n *v1.Node) { n.Labels["zone"] = "b" }
	data := func(n *v1.Node) { n.Annotations[api.AnnotationDatasets] = "laion, imagenet" }
	image := func(n *v1.Node) {
		n.Status.Images = []v1.ContainerImage{{Names: []string{"nvcr.io/pytorch:25.01"}, SizeBytes: 9 << 30}}
	}
	shared := func(n *v1.Node) {
		*n = *t4Node(t, n.Name, 2, gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{api.ResourceGPU: 4}})
	}
	with := func(edit func(*v1.Pod), wants ...string) *v1.Pod {
		p := asking("p", "", wants...)
		edit(p)
		return p
	}
	as := func(*v1.Pod) {}
	t4, _ := gpu.Find("Tesla T4")
	of := func(i int) string { return `{"main":[{"uuid":"` + gpu.New("a", t4, 2)[i].UUID + `"}]}` }
	cpu := func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("2")}
	}
	selects := func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "b"} }
	prefers := func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{
			Weight: 1, Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"b"}}}},
		}}}}
	}
	for _, tt := range []struct {
		name  string
		nodes []*v1.Node
		on    []*v1.Pod // on the first node
		pod   *v1.Pod
		want  string // the node, "every node", or the message
	}{
		{"of equal nodes the first by name", []*v1.Node{edited(t, "b", plain), edited(t, "a", plain)}, nil, with(as, "gpu=1"), "a"},
		{"not a cordoned one", []*v1.Node{edited(t, "a", cordoned), edited(t, "b", plain)}, nil, with(as, "gpu=1"), "b"},
		{"a tainted one only if tolerated", []*v1.Node{edited(t, "a", tainted(v1.TaintEffectNoSchedule)), edited(t, "b", plain)}, nil, with(as, "gpu=1"), "b"},
		{"one with a taint to avoid comes last", []*v1.Node{edited(t, "a", tainted(v1.TaintEffectPreferNoSchedule)), edited(t, "b", plain)}, nil, with(as, "gpu=1"), "b"},
		{"the one that is selected", []*v1.Node{edited(t, "a", plain), edited(t, "b", zone)}, nil, with(selects, "gpu=1"), "b"},
		{"the one that is preferred, although another has the data", []*v1.Node{edited(t, "a", data), edited(t, "b", zone)}, nil, with(func(p *v1.Pod) {
			prefers(p)
			p.Annotations = map[string]string{api.AnnotationDataset: "imagenet"}
		}, "gpu=1"), "b"},
		{"the one that has the data", []*v1.Node{edited(t, "a", plain), edited(t, "b", data)}, nil, with(func(p *v1.Pod) {
			p.Annotations = map[string]string{api.AnnotationDataset: "imagenet"}
		}, "gpu=1"), "b"},
		{"the one that has the image", []*v1.Node{edited(t, "a", plain), edited(t, "b", image)}, nil, with(func(p *v1.Pod) {
			p.Spec.Containers[0].Image = "nvcr.io/pytorch:25.01"
		}, "gpu=1"), "b"},
		{"a share goes where a GPU is begun", []*v1.Node{edited(t, "a", plain), edited(t, "b", plain)}, nil, with(as, "gpu-memory=6"), "a"},
		{"several shares of one GPU", []*v1.Node{edited(t, "a", func(n *v1.Node) {
			*n = *t4Node(t, "a", 1, gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{api.ResourceGPU: 4}})
		})}, nil, with(as, "gpu=4"), "a"},
		{"more shares than there are", []*v1.Node{edited(t, "a", shared)}, nil, with(as, "gpu=9"), "1 Insufficient nvidia.com/gpu"},
		{"MIG devices that stand for GPUs are for every node", []*v1.Node{edited(t, "a", func(n *v1.Node) {
			n.Annotations[api.AnnotationPluginConfig] = `{"migStrategy":"single","replicas":{"nvidia.com/mig-1g.5gb":2}}`
		})}, nil, with(as, "gpu=9"), "every node"},
		{"one share of a time-sliced GPU", []*v1.Node{edited(t, "a", shared)}, nil, with(as, "gpu=1"), "a"},
		{"a node that publishes nothing", []*v1.Node{foreign("a", 2)}, []*v1.Pod{asking("x", "", "gpu=1")}, with(as, "gpu=1"), "a"},
		{"a pod with another's affinity is for every node", []*v1.Node{edited(t, "a", plain)}, nil, with(func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}}
		}, "gpu=1"), "every node"},
		{"every cause is counted", []*v1.Node{
			edited(t, "a", cordoned), edited(t, "b", tainted(v1.TaintEffectNoExecute)), edited(t, "c", plain), edited(t, "d", small), foreign("e", 0), foreign("f", 0),
		}, nil, with(func(p *v1.Pod) { cpu(p); p.Spec.Tolerations = nil }, "gpu=3"), "1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 3 Insufficient nvidia.com/gpu"},
		{"room for pods", []*v1.Node{edited(t, "a", full)}, []*v1.Pod{asking("x", "")}, with(as, "gpu=1"), "1 Too many pods"},
		{"the selected node is full", []*v1.Node{edited(t, "b", zone), edited(t, "c", plain)}, []*v1.Pod{asking("x", "", "gpu=2")}, with(selects, "gpu=1"), "1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node affinity/selector"},
		{"a full foreign node", []*v1.Node{foreign("a", 2)}, []*v1.Pod{asking("x", "", "gpu=2")}, with(as, "gpu=1"), "1 Insufficient nvidia.com/gpu"},
		{"memory of one GPU", []*v1.Node{edited(t, "a", plain), foreign("b", 2)}, []*v1.Pod{asking("x", of(0), "gpu-memory=10"), asking("y", of(1), "gpu-memory=10")}, with(as, "gpu-memory=6"), "1 Insufficient nvidia.com/gpu-memory, 1 no GPU with 6 GiB free"},
		{"a whole GPU with memory", []*v1.Node{edited(t, "a", plain)}, nil, with(as, "gpu=1", "gpu-memory=40"), "1 no free GPU with 40 GiB"},
		{"a pod that asks for no GPU goes where there are none", []*v1.Node{edited(t, "a", plain), foreign("b", 0)}, nil, with(cpu), "b"},
		{"the pod of a Job that asks for no GPU does so", []*v1.Node{edited(t, "a", plain), foreign("b", 0)}, nil, with(func(p *v1.Pod) {
			cpu(p)
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", Controller: new(true)}}
		}), "b"},
		{"one of a ReplicaSet is for the other plugins", []*v1.Node{edited(t, "a", plain), foreign("b", 0)}, nil, replicated(with(cpu)), ""},
		{"without any GPU they all are", []*v1.Node{foreign("b", 0)}, nil, with(cpu), ""},
		{"a MIG device that no node has", []*v1.Node{edited(t, "a", plain)}, nil, with(as, "mig-1g.5gb=1"), "1 Insufficient nvidia.com/mig-1g.5gb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &handle{}
			for i, n := range tt.nodes {
				at := &info{node: n, generation: int64(i + 1)}
				if i == 0 {
					at.pods = tt.on
				}
				h.nodes = append(h.nodes, at)
			}
			plugin := newPlugin(t, h)
			left, status := plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, tt.pod, h.list())
			got := status.Message()
			if status.IsSuccess() {
				if got = "every node"; !left.AllNodes() {
					got = left.NodeNames.UnsortedList()[0]
				}
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestTheWorldFollowsNodes changes one of two nodes in every way and asks after
// each change.
func TestTheWorldFollowsNodes(t *testing.T) {
	a, b := edited(t, "a", plain), edited(t, "b", func(n *v1.Node) { n.Spec.Unschedulable = true })
	h := &handle{nodes: []*info{{node: a, generation: 1}, {node: b, generation: 2}}}
	plugin := newPlugin(t, h)
	for i, tt := range []struct {
		what string
		edit func(*v1.Node)
		want string
	}{
		{"nothing", plain, "a"},
		{"it is cordoned", func(n *v1.Node) { n.Spec.Unschedulable = true }, ""},
		{"it is open again", func(n *v1.Node) { n.Spec.Unschedulable = false }, "a"},
		{"its GPUs are time-sliced", func(n *v1.Node) {
			*n = *t4Node(t, "a", 2, gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{api.ResourceGPU: 4}})
		}, "a"},
		{"its device plugin is down", func(n *v1.Node) { n.Status.Allocatable[api.ResourceGPU] = resource.MustParse("0") }, ""},
		{"it has one GPU more", func(n *v1.Node) { *n = *t4Node(t, "a", 3, gpu.Sharing{}) }, "a"},
		{"it publishes nothing", func(n *v1.Node) { *n = *foreign("a", 4) }, "a"},
		{"it has no GPU", func(n *v1.Node) { *n = *foreign("a", 0) }, ""},
	} {
		was := h.nodes[0].node.DeepCopy()
		tt.edit(was)
		h.nodes[0] = &info{node: was, generation: int64(10 + i)}
		if drift := devices.Drift(plugin, h.list()); drift != "" { // looks at all nodes, which is not done every time
			t.Errorf("%s: %s", tt.what, drift)
		}
		pod := asking("p", "", "gpu=1")
		left, status := plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, pod, h.list())
		if tt.want == "" && status.Code() != fwk.Unschedulable || tt.want != "" && (left.AllNodes() || !left.NodeNames.Has(tt.want)) {
			t.Errorf("%s: %v, %v; want node %q", tt.what, left, status, tt.want)
		}
	}
}

// TestClassesAreBounded asks with more node selectors than are kept, twice.
func TestClassesAreBounded(t *testing.T) {
	h := &handle{nodes: []*info{{node: edited(t, "a", plain), generation: 1}}}
	plugin := newPlugin(t, h)
	for i := range 600 {
		pod := asking(fmt.Sprint("p", i), "", "gpu=1")
		pod.Spec.NodeSelector = map[string]string{"team": fmt.Sprint(i % 300)}
		_, status := plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, pod, h.list())
		if got, want := status.Message(), "1 node(s) didn't match Pod's node affinity/selector"; got != want {
			t.Fatalf("pod %d: %q, want %q", i, got, want)
		}
	}
	if n := devices.Classes(plugin); n > 128 {
		t.Errorf("%d classes are kept", n)
	}
}

// TestANewSchedulerLearnsFromWhatRuns starts beside pods that are bound.
func TestANewSchedulerLearnsFromWhatRuns(t *testing.T) {
	agent := asking("agent", "")
	agent.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
	h := &handle{nodes: []*info{{node: edited(t, "a", plain), generation: 1, pods: []*v1.Pod{asking("x", "", "gpu=1"), asking("y", ""), agent}}}}
	plugin := newPlugin(t, h)
	plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, asking("p", "", "gpu=1"), h.list())
	if got := devices.Learned(plugin); got != 3 {
		t.Errorf("it has learned of %v requests, want x, y and p", got)
	}
}
