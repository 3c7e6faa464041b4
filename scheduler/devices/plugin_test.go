package devices_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/scheduler/devices"
)

// asking is a pod that wants resources such as "gpu=1"; devices is its
// annotation, if any.
func asking(name, devices string, wants ...string) *v1.Pod {
	limits := v1.ResourceList{}
	for _, w := range wants {
		what, n, _ := strings.Cut(w, "=")
		limits[v1.ResourceName("nvidia.com/"+what)] = resource.MustParse(n)
	}
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "d", UID: types.UID(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: limits}}}},
	}
	if devices != "" {
		p.Annotations = map[string]string{api.AnnotationDevices: devices}
	}
	return p
}

func TestFilter(t *testing.T) {
	failing := gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{api.ResourceGPU: 4}, FailRequestsGreaterThanOne: true}
	some := t4Node(t, "n", 2, gpu.Sharing{
		Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{api.ResourceGPU: 4}, RenameByDefault: true,
		Devices: map[string][]string{api.ResourceGPU: {"0"}},
	})
	plain := t4Node(t, "n", 2, gpu.Sharing{})
	p, _ := gpu.Find("Tesla T4")
	g0, g1 := gpu.New("n", p, 2)[0].UUID, gpu.New("n", p, 2)[1].UUID
	on := func(uuid string) string { return `{"main":[{"uuid":"` + uuid + `"}]}` }
	bad := plain.DeepCopy()
	bad.Annotations[api.AnnotationInventory] = "no"
	down := plain.DeepCopy()
	down.Status.Allocatable[api.ResourceGPU] = resource.MustParse("0")
	for _, tt := range []struct {
		name string
		node *v1.Node
		pods []*v1.Pod
		want []string // of the pod
		code fwk.Code
		text string
	}{
		{"a free GPU is enough", plain, []*v1.Pod{asking("a", on(g0), "gpu=1")}, []string{"gpu=1"}, fwk.Success, ""},
		{"a node that is full may do when pods leave", plain, []*v1.Pod{asking("a", on(g0), "gpu=1")}, []string{"gpu=2"}, fwk.Unschedulable, "Insufficient nvidia.com/gpu"},
		{"a node with fewer GPUs never does", plain, nil, []string{"gpu=3"}, fwk.UnschedulableAndUnresolvable, "Insufficient nvidia.com/gpu"},
		{"shares on both GPUs leave none whole", plain, []*v1.Pod{asking("a", on(g0), "gpu-memory=1"), asking("b", on(g1), "gpu-memory=1")}, []string{"gpu=1"}, fwk.Unschedulable, "Insufficient nvidia.com/gpu"},
		{"memory of two GPUs does not add up", plain, []*v1.Pod{asking("a", on(g0), "gpu-memory=10"), asking("b", on(g1), "gpu-memory=10")}, []string{"gpu-memory=6"}, fwk.Unschedulable, "no GPU with 6 GiB free"},
		{"a share beside a share", plain, []*v1.Pod{asking("a", on(g0), "gpu-memory=9"), asking("b", on(g1), "gpu=1")}, []string{"gpu-memory=6"}, fwk.Success, ""},
		{"a share larger than any GPU", plain, nil, []string{"gpu-memory=40"}, fwk.UnschedulableAndUnresolvable, "no GPU with 40 GiB free"},
		{"a whole GPU with more memory than there is", plain, nil, []string{"gpu=1", "gpu-memory=40"}, fwk.UnschedulableAndUnresolvable, "no free GPU with 40 GiB"},
		{"two shares where one is the most, which the node refuses", t4Node(t, "n", 2, failing), nil, []string{"gpu=2"}, fwk.Success, ""},
		{"a whole GPU beside one that is shared", some, nil, []string{"gpu=1"}, fwk.Success, ""},
		{"two whole GPUs where one is shared", some, nil, []string{"gpu=2"}, fwk.UnschedulableAndUnresolvable, "Insufficient nvidia.com/gpu"},
		{"a share of the GPU that is shared", some, []*v1.Pod{asking("a", on(g1), "gpu=1")}, []string{"gpu.shared=1"}, fwk.Success, ""},
		{"memory of the GPU that is not shared", some, nil, []string{"gpu-memory=10"}, fwk.Success, ""},
		{"memory where the only GPU for it is held", some, []*v1.Pod{asking("a", on(g1), "gpu=1")}, []string{"gpu-memory=10"}, fwk.Unschedulable, "no GPU with 10 GiB free"},
		{"a pod that is being deleted holds its device", plain, []*v1.Pod{leaving(asking("a", on(g0), "gpu=1")), asking("b", on(g1), "gpu=1")}, []string{"gpu=1"}, fwk.Unschedulable, "Insufficient nvidia.com/gpu"},
		{"of a node that publishes no devices its kubelet says how many", &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
		}, nil, []string{"gpu=1"}, fwk.Success, ""},
		{"a node without GPUs has none", &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, nil, []string{"gpu=1"}, fwk.UnschedulableAndUnresolvable, "Insufficient nvidia.com/gpu"},
		{"a node whose device plugin is down", down, nil, []string{"gpu=1"}, fwk.UnschedulableAndUnresolvable, "Insufficient nvidia.com/gpu"},
		{"a node whose annotation is no JSON takes nothing", bad, nil, []string{"gpu=1"}, fwk.UnschedulableAndUnresolvable, "node n: read annotation berth.dev/inventory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &info{node: tt.node, pods: tt.pods, generation: 1}
			plugin := newPlugin(t, &handle{nodes: []*info{n}})
			s := &state{data: map[fwk.StateKey]fwk.StateData{}}
			pod := asking("p", "", tt.want...)
			if _, status := plugin.PreFilter(t.Context(), s, pod, []fwk.NodeInfo{n}); status.Code() == fwk.Error {
				t.Fatal(status)
			}
			got := plugin.Filter(t.Context(), s, pod, n)
			if got.Code() != tt.code || !strings.Contains(got.Message(), tt.text) {
				t.Errorf("got %v %q, want %v %q", got.Code(), got.Message(), tt.code, tt.text)
			}
		})
	}
}

func leaving(p *v1.Pod) *v1.Pod {
	p.DeletionTimestamp = &metav1.Time{}
	return p
}

func TestAPodWithoutGPUsIsLeftToOthers(t *testing.T) {
	plugin := newPlugin(t, &handle{})
	s := &state{data: map[fwk.StateKey]fwk.StateData{}}
	pod := replicated(asking("p", ""))
	if _, status := plugin.PreFilter(t.Context(), s, pod, nil); !status.IsSkip() {
		t.Errorf("PreFilter: %v", status)
	}
	if status := plugin.PreScore(t.Context(), s, pod, nil); !status.IsSkip() {
		t.Errorf("PreScore: %v", status)
	}
	if status := plugin.Reserve(t.Context(), s, pod, "n"); !status.IsSuccess() {
		t.Errorf("Reserve: %v", status)
	}
	if status := plugin.Bind(t.Context(), s, pod, "n"); !status.IsSkip() {
		t.Errorf("Bind: %v", status)
	}
	if _, status := plugin.SignPod(t.Context(), pod); !status.IsSuccess() {
		t.Errorf("SignPod: %v", status)
	}
	if _, status := plugin.SignPod(t.Context(), asking("p", "")); status.IsSuccess() {
		t.Error("SignPod: a pod whose node the plugin may name is signed")
	}
}

// replicated makes pod one of a ReplicaSet, whose pods the stock plugins spread.
func replicated(pod *v1.Pod) *v1.Pod {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", Controller: new(true)}}
	return pod
}

// TestTheNodeRefusesSeveralShares: with failRequestsGreaterThanOne a pod that
// asks for two is bound without devices, so that its kubelet fails it with the
// device plugin's reason, as it does under any scheduler.
func TestTheNodeRefusesSeveralShares(t *testing.T) {
	one := gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{api.ResourceGPU: 4}, FailRequestsGreaterThanOne: true}
	h := &handle{nodes: []*info{{node: t4Node(t, "n", 2, one), generation: 1}}}
	plugin, s, pod := newPlugin(t, h), &state{data: map[fwk.StateKey]fwk.StateData{}}, asking("p", "", "gpu=2")
	if _, status := plugin.PreFilter(t.Context(), s, pod, h.list()); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := plugin.Reserve(t.Context(), s, pod, "n"); !status.IsSuccess() {
		t.Errorf("Reserve: %v", status)
	}
	if status := plugin.Bind(t.Context(), s, pod, "n"); !status.IsSkip() {
		t.Errorf("Bind: %v", status)
	}
}

// TestProfilesSeeWhatTheOthersHaveChosen schedules by two profiles of one
// scheduler onto one GPU, with neither binding in the API yet.
func TestProfilesSeeWhatTheOthersHaveChosen(t *testing.T) {
	factory := devices.Factory()
	h := &handle{nodes: []*info{{node: t4Node(t, "n", 1, gpu.Sharing{}), generation: 1}}}
	var plugins []*devices.Plugin
	for range 2 {
		p, err := factory(t.Context(), nil, h)
		if err != nil {
			t.Fatal(err)
		}
		plugins = append(plugins, p.(*devices.Plugin))
	}
	var codes []fwk.Code
	for i, name := range []string{"a", "b"} {
		pod, s := asking(name, "", "gpu-memory=9"), &state{data: map[fwk.StateKey]fwk.StateData{}}
		_, status := h.feasible(t, plugins[i], s, pod)
		if codes = append(codes, status.Code()); status.IsSuccess() {
			plugins[i].Reserve(t.Context(), s, pod, "n")
			h.nodes[0] = &info{node: h.nodes[0].node, pods: []*v1.Pod{pod}, generation: 2}
		}
	}
	if diff := cmp.Diff([]fwk.Code{fwk.Success, fwk.Unschedulable}, codes); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestScoreFillsTheCardThatIsBegun(t *testing.T) {
	p, _ := gpu.Find("Tesla T4")
	begun := gpu.New("begun", p, 1)[0].UUID
	h := &handle{nodes: []*info{
		{node: sized(t4Node(t, "idle", 1, gpu.Sharing{})), generation: 1},
		{node: sized(t4Node(t, "begun", 1, gpu.Sharing{})), generation: 2, pods: []*v1.Pod{asking("x", `{"main":[{"uuid":"`+begun+`"}]}`, "gpu-memory=8")}},
	}}
	plugin, s, pod := newPlugin(t, h), &state{data: map[fwk.StateKey]fwk.StateData{}}, asking("p", "", "gpu-memory=7")
	// The policy has seen requests for whole cards: it keeps one for them.
	for i := range 3 {
		whole, s := asking("w", "", "gpu=1"), &state{data: map[fwk.StateKey]fwk.StateData{}}
		plugin.PreFilter(t.Context(), s, whole, h.list())
		if status := plugin.PreScore(t.Context(), s, whole, []fwk.NodeInfo{h.nodes[0], h.nodes[1]}); !status.IsSuccess() {
			t.Fatal(i, status)
		}
	}
	plugin.PreFilter(t.Context(), s, pod, h.list())
	plugin.PreScore(t.Context(), s, pod, []fwk.NodeInfo{h.nodes[0], h.nodes[1]})
	var scores fwk.NodeScoreList
	for _, n := range h.nodes {
		score, status := plugin.Score(t.Context(), s, pod, n)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		scores = append(scores, fwk.NodeScore{Name: n.node.Name, Score: score})
	}
	plugin.ScoreExtensions().NormalizeScore(t.Context(), s, pod, scores)
	if diff := cmp.Diff(fwk.NodeScoreList{{Name: "idle", Score: 0}, {Name: "begun", Score: 100}}, scores); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// sized gives a node CPU and memory.
func sized(n *v1.Node) *v1.Node {
	n.Status.Allocatable["cpu"], n.Status.Allocatable["memory"] = resource.MustParse("32"), resource.MustParse("64Gi")
	return n
}

// TestAPodWithoutGPUsIsKeptOffCPUThatGPUsNeed scores a node whose GPUs need its
// CPU, one that has none, and one that has CPU to spare.
func TestAPodWithoutGPUsIsKeptOffCPUThatGPUsNeed(t *testing.T) {
	h := &handle{nodes: []*info{
		{node: edited(t, "scarce", func(n *v1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("8") }), generation: 1},
		{node: foreign("none", 0), generation: 2},
		{node: edited(t, "ample", plain), generation: 3},
	}}
	plugin := newPlugin(t, h)
	for i := range 9 { // the policy learns what GPUs are used with
		pod := asking(fmt.Sprint("w", i), "", "gpu=1")
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("4")}
		plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, pod, h.list())
	}
	pod, s := replicated(asking("p", "")), &state{data: map[fwk.StateKey]fwk.StateData{}}
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("4")}
	if _, status := plugin.PreFilter(t.Context(), s, pod, h.list()); !status.IsSkip() {
		t.Fatal(status)
	}
	if status := plugin.PreScore(t.Context(), s, pod, h.list()); !status.IsSuccess() {
		t.Fatal(status)
	}
	var scores fwk.NodeScoreList
	for _, n := range h.nodes {
		score, _ := plugin.Score(t.Context(), s, pod, n)
		scores = append(scores, fwk.NodeScore{Name: n.node.Name, Score: score})
	}
	plugin.ScoreExtensions().NormalizeScore(t.Context(), s, pod, scores)
	if diff := cmp.Diff(fwk.NodeScoreList{{Name: "scarce", Score: 0}, {Name: "none", Score: 100}, {Name: "ample", Score: 100}}, scores); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestOnlyPodsWithGPUsWakeWhoWaits(t *testing.T) {
	full := &info{node: t4Node(t, "n", 1, gpu.Sharing{}), pods: []*v1.Pod{asking("x", "", "gpu=1")}, generation: 1}
	plugin := newPlugin(t, &handle{nodes: []*info{full}})
	events, err := plugin.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waits := asking("p", "", "gpu=1")
	plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, waits, []fwk.NodeInfo{full})
	for _, tt := range []struct {
		gone            *v1.Pod
		node, nominated string
		want            fwk.QueueingHint
	}{
		{asking("a", "", "gpu=1"), "n", "", fwk.Queue},
		{asking("a", "", "gpu=1"), "", "", fwk.QueueSkip},
		{asking("a", "", "gpu=1"), "", "n", fwk.Queue},
		{asking("a", ""), "n", "", fwk.QueueSkip},
		{asking("a", ""), "", "n", fwk.QueueSkip},
	} {
		tt.gone.Spec.NodeName, tt.gone.Status.NominatedNodeName = tt.node, tt.nominated
		for _, e := range events {
			if e.Event.Resource != fwk.Pod || e.Event.ActionType != fwk.Delete {
				continue
			}
			if got, err := e.QueueingHintFn(klog.Background(), waits, tt.gone, nil); got != tt.want || err != nil {
				t.Errorf("%v gone from %q, nominated for %q: %v, %v; want %v", tt.gone.Spec.Containers, tt.node, tt.nominated, got, err, tt.want)
			}
		}
	}
}
