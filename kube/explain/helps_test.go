package explain_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/snapshot"
)

// randomNodes are some nodes, of which GPUs, CPU, labels, taints, and cordons differ.
func randomNodes(r *rand.Rand) []*v1.Node {
	var out []*v1.Node
	for i := range 2 + r.IntN(4) {
		name, gpus := fmt.Sprintf("n-%d", i), 1+r.IntN(4)
		n := kubetest.Inventory(name, kubetest.A100s(name, gpus), "cpu", 8<<r.IntN(3), "memory", 32<<30<<r.IntN(3), "pods", 3+r.IntN(20), api.ResourceGPU, gpus)
		n.Labels["kubernetes.io/hostname"], n.Labels[api.LabelMemory] = name, []string{"40960", "81920"}[r.IntN(2)]
		n.Labels[api.LabelProduct] = []string{"NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"}[r.IntN(2)]
		if r.IntN(3) == 0 {
			n.Labels["pool"] = "gpu"
		}
		if r.IntN(3) == 0 {
			n.Spec.Taints = []v1.Taint{{Key: "dedicated", Value: []string{"a", "b"}[r.IntN(2)], Effect: v1.TaintEffectNoSchedule}}
		}
		n.Spec.Unschedulable = r.IntN(5) == 0
		out = append(out, n)
	}
	return out
}

// randomHolders are pods that hold some of the nodes, never more than there is.
func randomHolders(r *rand.Rand, nodes []*v1.Node) []*v1.Pod {
	var out []*v1.Pod
	for _, n := range nodes {
		gpus, free := n.Status.Allocatable[api.ResourceGPU], n.Status.Allocatable.Cpu().Value()
		if held := r.IntN(int(gpus.Value()) + 1); held > 0 {
			cpu := r.IntN(int(free)/2 + 1)
			p := holds("h-"+n.Name, n.Name, held, cpu, labeled("app", []string{"x", "y"}[r.IntN(2)]))
			if r.IntN(3) == 0 {
				portOf(8080)(p)
			}
			out, free = append(out, p), free-int64(cpu)
		}
		if r.IntN(3) == 0 {
			out = append(out, holds("c-"+n.Name, n.Name, 0, r.IntN(int(free)+1)))
		}
	}
	return out
}

// randomPod is a pod that asks for much, and chooses nodes in some of the ways there are.
func randomPod(r *rand.Rand) *v1.Pod {
	p := refused([]any{"cpu", 1 + r.IntN(24), "memory", 1 << 30 << r.IntN(7), []string{api.ResourceGPU, api.ResourceGPU, api.ResourceGPU, "nvidia.com/gpus", api.ResourceGPUShared}[r.IntN(5)], 1 + r.IntN(5)})
	switch r.IntN(6) {
	case 0:
		selectorOf("pool", "gpu")(p)
	case 1:
		selectorOf(api.LabelMemory, []string{"40960", "81920", "80gb"}[r.IntN(3)])(p)
	case 2:
		affinityOf(api.LabelMemory, v1.NodeSelectorOpGt, []string{"50000", "90000"}[r.IntN(2)])(p)
	case 3:
		selectorOf("gpu-memory", "40gb")(p)
		p.Spec.NodeSelector[api.LabelProduct] = "NVIDIA-A100-SXM4-40GB"
	}
	if r.IntN(4) == 0 {
		p.Spec.Tolerations = []v1.Toleration{{Key: "dedicated", Operator: v1.TolerationOpEqual, Value: "a", Effect: v1.TaintEffectNoSchedule}}
	}
	if r.IntN(4) == 0 {
		portOf(8080)(p)
	}
	if r.IntN(4) == 0 {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &v1.Affinity{}
		}
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: byHost("x")}
	}
	return p
}

// TestEveryHelpMakesThePodStart makes random clusters in which a pod does not fit. Each help
// is applied to the objects as a patch or a kubectl command would, and the pod then fits: by
// the judge of a cluster that is read afresh, by package placement, and by the rules of
// Kubernetes for labels, taints, cordons, ports, and sums, which are checked here once more.
func TestEveryHelpMakesThePodStart(t *testing.T) {
	helped, tried, later := 0, 0, 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 1))
		nodes := randomNodes(r)
		pods, pod := randomHolders(r, nodes), randomPod(r)
		on, err := explain.NewCluster(nodes, pods)
		if err != nil {
			t.Fatal(err)
		}
		if _, fits := on.Fits(pod); fits {
			continue
		}
		helps := on.Helps(pod)
		for _, h := range helps {
			changed := patched(t, pod, h.Pod)
			starts(t, fmt.Sprintf("seed %d: %s", seed, h.Change), nodes, pods, changed)
			tried++
		}
		lower := int32(r.IntN(20))
		for _, p := range pods[:r.IntN(len(pods)+1)] {
			p.Spec.Priority = &lower
		}
		found, err := explain.Find(&explain.Situation{Pod: pod, Nodes: nodes, Pods: append(slices.Clone(pods), pod), Priorities: []schedulingv1.PriorityClass{class("high", 10)}}, kubetest.Started)
		if err != nil {
			t.Fatal(err)
		}
		for _, relief := range found.Reliefs {
			if relief.Later {
				kept := slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return request.Priority(p) < 10 })
				if len(kept) == len(pods) {
					t.Errorf("seed %d: %s preempts no pod", seed, relief.Change)
				}
				starts(t, fmt.Sprintf("seed %d: %s", seed, relief.Change), nodes, kept, pod)
				later++
			}
			if relief.Admin {
				starts(t, fmt.Sprintf("seed %d: %s", seed, relief.Command), administered(t, nodes, relief.Command), pods, pod)
				tried++
			}
		}
		if len(found.Reliefs) > 0 {
			helped++
		}
	}
	t.Logf("%d helps for %d pods, and %d by priority", tried, helped, later)
	if helped < 200 || later < 10 {
		t.Errorf("only %d pods have a help, and %d one by priority", helped, later)
	}
}

// patched applies the patch of a help to a pod as the API server would.
func patched(t *testing.T, before, after *v1.Pod) *v1.Pod {
	t.Helper()
	patch, err := explain.PatchOf(before, after)
	if err != nil {
		t.Fatal(err)
	}
	was, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	is, err := strategicpatch.StrategicMergePatch(was, []byte(`{"spec":`+patch+`}`), v1.Pod{})
	if err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	out := &v1.Pod{}
	if err := json.Unmarshal(is, out); err != nil {
		t.Fatal(err)
	}
	raw := func(p *v1.Pod) string { text, _ := json.Marshal(p.Spec.NodeSelector); return string(text) }
	if diff := cmp.Diff(request.Of(after), request.Of(out)); diff != "" || raw(after) != raw(out) && len(after.Spec.NodeSelector)+len(out.Spec.NodeSelector) > 0 {
		t.Fatalf("the patch %s makes another pod: %s\n%s, want %s", patch, diff, raw(out), raw(after))
	}
	return out
}

// administered are nodes after a kubectl command of an administrator.
func administered(t *testing.T, nodes []*v1.Node, command string) []*v1.Node {
	t.Helper()
	words := strings.Fields(command)
	var out []*v1.Node
	for _, n := range nodes {
		n = n.DeepCopy()
		switch {
		case strings.HasPrefix(command, "kubectl uncordon ") && words[2] == n.Name:
			n.Spec.Unschedulable = false
		case strings.HasPrefix(command, "kubectl taint nodes ") && words[3] == n.Name:
			var left []v1.Taint
			for _, taint := range n.Spec.Taints {
				if taint.ToString()+"-" != words[4] {
					left = append(left, taint)
				}
			}
			n.Spec.Taints = left
		case strings.HasPrefix(command, "kubectl label node ") && words[3] == n.Name:
			key, value, _ := strings.Cut(words[4], "=")
			n.Labels[key] = value
		}
		out = append(out, n)
	}
	return out
}

// starts checks that a pod fits, and that nothing of the node it fits on forbids it.
func starts(t *testing.T, what string, nodes []*v1.Node, pods []*v1.Pod, pod *v1.Pod) {
	t.Helper()
	on, err := explain.NewCluster(nodes, pods)
	if err != nil {
		t.Fatal(err)
	}
	name, fits := on.Fits(pod)
	if !fits {
		t.Errorf("%s: it does not fit: %v", what, on.Rejections(pod))
		return
	}
	read, err := snapshot.Read(nodes, pods)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name != name {
			continue
		}
		i, _ := read.Snapshot.Find(name)
		r := request.Demand(pod, gpu.Sharing{})
		if why := placement.Fit(read.Snapshot, i, &r); why != placement.Fits {
			t.Errorf("%s: package placement refuses %s: %v", what, name, why)
		}
		if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n); !ok || err != nil {
			t.Errorf("%s: it does not select %s", what, name)
		}
		taint, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, pod.Spec.Tolerations, func(*v1.Taint) bool { return true }, false)
		if untolerated || n.Spec.Unschedulable {
			t.Errorf("%s: %s is cordoned (%v) or has the taint %s", what, name, n.Spec.Unschedulable, taint.ToString())
		}
		sums(t, what, n, pods, pod)
	}
}

// sums checks that the pods of a node and one more ask for no more than it has, and use no
// host port twice.
func sums(t *testing.T, what string, n *v1.Node, pods []*v1.Pod, pod *v1.Pod) {
	t.Helper()
	here, ports, asked := 1, map[int32]int{}, map[v1.ResourceName]int64{}
	count := func(p *v1.Pod) {
		for _, c := range p.Spec.Containers {
			for name, q := range c.Resources.Requests {
				asked[name] += q.Value()
			}
			for _, port := range c.Ports {
				if port.HostPort > 0 {
					ports[port.HostPort]++
				}
			}
		}
	}
	count(pod)
	for _, p := range pods {
		if p.Spec.NodeName == n.Name {
			here++
			count(p)
		}
	}
	for name, sum := range asked {
		if q := n.Status.Allocatable[name]; sum > q.Value() {
			t.Errorf("%s: %d %s on %s, which has %s", what, sum, name, n.Name, q.String())
		}
	}
	if q := n.Status.Allocatable.Pods(); int64(here) > q.Value() {
		t.Errorf("%s: %d pods on %s, which takes %s", what, here, n.Name, q.String())
	}
	for port, times := range ports {
		if times > 1 {
			t.Errorf("%s: host port %d of %s is used %d times", what, port, n.Name, times)
		}
	}
}
