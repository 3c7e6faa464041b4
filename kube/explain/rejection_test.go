package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

const zoneLabel = "topology.kubernetes.io/zone"

// zonal is a claim bound to a volume of one zone.
func zonal(claim, zone string) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: claim}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv-" + claim}}
	v := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + claim}}
	v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: zoneLabel, Operator: v1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}}
	return c, v
}

// gpuNode has a100s and a zone.
func gpuNode(name, zone string, count int, edits ...func(*v1.Node)) *v1.Node {
	n := kubetest.Inventory(name, kubetest.A100s(name, count), "cpu", 8, api.ResourceGPU, count)
	n.Labels[zoneLabel] = zone
	n.Labels[api.LabelProduct] = "A100"
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func TestObstacles(t *testing.T) {
	nodes := []*v1.Node{
		gpuNode("away", "b", 8),
		gpuNode("cordoned", "a", 8, func(n *v1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}}
		}),
		gpuNode("dark", "a", 8, func(n *v1.Node) { n.Status.Allocatable = kubetest.Amounts("cpu", 8, api.ResourceGPU, 0) }),
		gpuNode("full", "a", 4),
		gpuNode("full-2", "a", 4),
		gpuNode("gone", "a", 8, func(n *v1.Node) {
			n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown}}
		}),
		gpuNode("other", "a", 8, func(n *v1.Node) { n.Labels[api.LabelProduct] = "T4" }),
		gpuNode("plain", "a", 0),
		gpuNode("sick", "a", 4, func(n *v1.Node) {
			gpus := kubetest.A100s("sick", 4)
			for i := range 2 {
				gpus[i].Healthy, gpus[i].Xid = false, 79
			}
			n.Annotations[api.AnnotationInventory] = kubetest.Inventory("sick", gpus).Annotations[api.AnnotationInventory]
			n.Status.Allocatable = kubetest.Amounts("cpu", 8, api.ResourceGPU, 2)
		}),
		gpuNode("small", "a", 2),
		gpuNode("tainted", "a", 8, func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: "gpu", Value: "yes", Effect: v1.TaintEffectNoSchedule}}
		}),
	}
	held := []*v1.Pod{
		kubetest.Observed(kubetest.Pod("h1", "full", api.ResourceGPU, 2), api.ResourceGPU, "GPU-full-0", "GPU-full-1"),
		kubetest.Observed(kubetest.Pod("h2", "full-2", api.ResourceGPU, 2), api.ResourceGPU, "GPU-full-2-0", "GPU-full-2-1"),
	}
	p := waits([]any{api.ResourceGPU, 4}, func(p *v1.Pod) {
		p.Spec.NodeSelector = map[string]string{api.LabelProduct: "A100"}
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "home"}}}}
	})
	claim, volume := zonal("home", "a")
	on := trial(t, nodes, held...)
	on.SetVolumes(explain.VolumeTopologies(p, []*v1.PersistentVolumeClaim{claim}, []*v1.PersistentVolume{volume}))
	var got []string
	for _, o := range on.Rejections(p) {
		got = append(got, fmt.Sprintf("%s: %s", strings.Join(o.Nodes, ","), o.Why))
	}
	want := []string{
		"full,full-2: 2 of 4 GPUs free, too little for 4 nvidia.com/gpu",
		"sick: can give out 2 of its 4 nvidia.com/gpu; unhealthy: GPU 0 (Xid 79), GPU 1 (Xid 79)",
		"cordoned: cordoned",
		"dark: device plugin down",
		"gone: not ready",
		"small: has 2 nvidia.com/gpu in all, fewer than 4",
		"away: out of reach of volume claim home, whose volume pv-home is on nodes with topology.kubernetes.io/zone=a",
		"tainted: has the taint gpu=yes:NoSchedule, which the pod does not tolerate",
		"other: has nvidia.com/gpu.product=T4; its node selector wants A100",
		"plain: offers no nvidia.com/gpu",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("obstacles (-want +got):\n%s", diff)
	}
	if got := on.Judge(p).Scattered(); got != "6 nvidia.com/gpu are free for it, but on 3 nodes, at most 2 on one; a pod's GPUs must be on one node" {
		t.Errorf("Scattered = %q", got)
	}
}

// rows: ML-11
func TestObstaclesNameTheTolerationToAdd(t *testing.T) {
	for _, tt := range []struct {
		name  string
		taint v1.Taint
		want  string
	}{
		{"a taint with a value", v1.Taint{Key: "gpu", Value: "yes", Effect: v1.TaintEffectNoSchedule}, `add the toleration {key: gpu, operator: Equal, value: "yes", effect: NoSchedule}`},
		{"that of AKS's documentation", v1.Taint{Key: "sku", Value: "gpu", Effect: v1.TaintEffectNoSchedule}, `add the toleration {key: sku, operator: Equal, value: "gpu", effect: NoSchedule}`},
		{"a taint without", v1.Taint{Key: "gpu", Effect: v1.TaintEffectNoExecute}, "add the toleration {key: gpu, operator: Exists, effect: NoExecute}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			on := trial(t, []*v1.Node{gpuNode("n", "a", 1, func(n *v1.Node) { n.Spec.Taints = []v1.Taint{tt.taint} })})
			got := on.Rejections(waits([]any{api.ResourceGPU, 1}))
			if len(got) != 1 || got[0].Do != tt.want {
				t.Errorf("obstacles = %+v, want one to %s", got, tt.want)
			}
		})
	}
}

// TestANodeWithoutObstacleTakesThePod holds Rejections to Fits: a pod fits on a node
// if and only if no obstacle names it.
func TestANodeWithoutObstacleTakesThePod(t *testing.T) {
	nodes := []*v1.Node{gpuNode("a", "a", 2), gpuNode("b", "b", 4), gpuNode("c", "a", 8, func(n *v1.Node) { n.Spec.Unschedulable = true })}
	claim, volume := zonal("home", "b")
	for gpus := 1; gpus <= 8; gpus++ {
		for _, tied := range []bool{false, true} {
			p := waits([]any{api.ResourceGPU, gpus})
			for _, n := range nodes {
				on := trial(t, []*v1.Node{n}, kubetest.Observed(kubetest.Pod("h", "b", api.ResourceGPU, 1), api.ResourceGPU, "GPU-b-3"))
				if tied {
					p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "home"}}}}
					on.SetVolumes(explain.VolumeTopologies(p, []*v1.PersistentVolumeClaim{claim}, []*v1.PersistentVolume{volume}))
				}
				_, fits := on.Fits(p)
				if fits && tied && n.Name != "b" {
					t.Errorf("it fits on %s, which does not reach its volume", n.Name)
				}
				if why := on.Rejections(p); fits != (len(why) == 0) {
					t.Errorf("%d GPUs, tied %v, node %s: fits %v, obstacles %+v", gpus, tied, n.Name, fits, why)
				}
			}
		}
	}
}

func TestChoice(t *testing.T) {
	prefers := func(weight int32, product string) v1.PreferredSchedulingTerm {
		return v1.PreferredSchedulingTerm{Weight: weight, Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{
			Key: api.LabelProduct, Operator: v1.NodeSelectorOpIn, Values: []string{product},
		}}}}
	}
	p := waits([]any{api.ResourceGPU, 1})
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{prefers(50, "v100"), prefers(100, "a100")}}}
	for product, want := range map[string]string{
		"a100": "first choice of 2 (weight 100): nvidia.com/gpu.product=a100",
		"v100": "second choice of 2 (weight 50): nvidia.com/gpu.product=v100",
		"t4":   "none of its 2 choices",
	} {
		if got := explain.MetPreference(p, kubetest.Foreign("n", map[string]string{api.LabelProduct: product})); got != want {
			t.Errorf("on %s: %q, want %q", product, got, want)
		}
	}
	if got := explain.MetPreference(waits(nil), kubetest.Foreign("n", nil)); got != "" {
		t.Errorf("a pod without preferences has the choice %q", got)
	}
}
