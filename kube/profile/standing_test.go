package profile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/kube/pool"
	"berth.dev/berth/kube/profile"
)

// node is a Ready node with 4 CPUs, 16Gi, and GPUs of a product; labels and taints
// are KEY=VALUE, taints keep pods off.
func node(name, product string, gpus int, more ...string) *corev1.Node {
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("15Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}}
	if gpus > 0 {
		list[api.ResourceGPU] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
		n.Labels[api.LabelProduct], n.Labels[api.LabelCount] = product, fmt.Sprint(gpus)
	}
	for _, each := range more {
		kind, rest, _ := strings.Cut(each, ":")
		key, value, _ := strings.Cut(rest, "=")
		switch kind {
		case "label":
			n.Labels[key] = value
		case "taint":
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule})
		case "price":
			n.Annotations[api.AnnotationPrice] = rest
		}
	}
	n.Status.Capacity, n.Status.Allocatable = list, list
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// holder is a pod that runs on a node and holds GPUs of it.
func holder(name, on string, gpus int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name}}
	p.Spec.NodeName = on
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{api.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)},
	}}}
	p.Status.Phase = corev1.PodRunning
	return p
}

// rows: JH-05 JH-23 JH-28 ML-20
func TestOffer(t *testing.T) {
	const gpu = `extra_resource_limits: {nvidia.com/gpu: "1"}`
	t4 := node("t4", "Tesla-T4", 2, "price:1.00", "label:node.kubernetes.io/instance-type=g4dn.xlarge")
	v100 := node("v100", "Tesla-V100-SXM2-16GB", 4, "price:12", "taint:gpu=only")
	plain := node("plain", "", 0)
	nodes := []*corev1.Node{v100, t4, plain}
	tests := []struct {
		name, override string
		pods           []*corev1.Pod
		want           string
	}{
		{
			name: "it is told what it really gets, and what that costs", override: "{" + gpu + "}",
			want: "1 of Tesla-T4, 2 free, $0.50-0.50, starts on t4",
		},
		{
			name: "all that it selects and tolerates", override: "{" + gpu + ", tolerations: [{operator: Exists}]}",
			want: "1 of Tesla-T4 Tesla-V100-SXM2-16GB, 6 free, $0.50-3.00, starts on t4",
		},
		{
			name: "what is held is not free", override: "{" + gpu + "}", pods: []*corev1.Pod{holder("a", "t4", 1)},
			want: "1 of Tesla-T4, 1 free, $0.50-0.50, starts on t4",
		},
		{
			name: "nothing is free", override: "{" + gpu + "}", pods: []*corev1.Pod{holder("a", "t4", 2)},
			want: "1 of Tesla-T4, 0 free, $0.50-0.50, not now: 0 of 2 GPUs free on 1 node",
		},
		{
			name: "no node has the label", override: "{" + gpu + ", node_selector: {node.kubernetes.io/instance-type: g5.xlarge}}",
			want: "1 of , 0 free, $0.00-0.00, never: no node has the label node.kubernetes.io/instance-type=g5.xlarge",
		},
		{
			name: "the node of that label is too small", override: "{" + gpu + ", mem_guarantee: 15.5G, node_selector: {node.kubernetes.io/instance-type: g4dn.xlarge}}",
			want: "1 of Tesla-T4, 2 free, $0.50-0.50, never: it asks for 15.5Gi of memory, and of the 1 node that it could use the largest, t4, has 15Gi",
		},
		{
			name: "a taint keeps it off", override: "{" + gpu + ", node_selector: {nvidia.com/gpu.product: Tesla-V100-SXM2-16GB}}",
			want: "1 of , 0 free, $0.00-0.00, never: the nodes that it selects have the taint gpu=only:NoSchedule, which it does not tolerate",
		},
		{
			name: "GPUs of a kind that no node has", override: "{extra_resource_limits: {nvidia.com/mig-1g.5gb: 1}}",
			want: "1 of , 0 free, $0.00-0.00, never: no node that it selects has nvidia.com/mig-1g.5gb",
		},
		{name: "no GPU", override: "{cpu_guarantee: 2}", want: "0 of Tesla-T4, 2 free, $0.00-0.00, starts on plain"},
		{
			name: "no CPU left", override: "{cpu_guarantee: 5}",
			want: "0 of Tesla-T4, 2 free, $0.00-0.00, never: it asks for 5 of cpu, and of the 2 nodes that it could use the largest, plain, has 4",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := profile.NewCluster(nodes, tt.pods)
			if err != nil {
				t.Fatal(err)
			}
			c.Priced(nil, time.Time{})
			s, err := c.Offer(one(t, override("", tt.override)))
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%d of %s, %g free, $%.2f-%.2f, ", s.GPUs, strings.Join(s.Products, " "), float64(s.FreeGPUs)/1000,
				float64(s.LeastPriceMicros)/1e6, float64(s.MostPriceMicros)/1e6)
			switch {
			case s.Starts != "":
				got += "starts on " + s.Starts
			case s.Never:
				got += "never: " + s.Why
			default:
				got += "not now: " + s.Why
			}
			if got != tt.want {
				t.Errorf("offer: %s\nwant:  %s", got, tt.want)
			}
		})
	}
}

func TestPricesOfAnOffer(t *testing.T) {
	lab := cost.NewRules([]cost.Rule{{Book: "lab", Name: "any", PerGPU: true, Micros: 2_000_000, Currency: "EUR"}})
	said, silent := node("said", "Tesla-T4", 2, "price:1.00"), node("silent", "NVIDIA-L4", 4, "label:node.kubernetes.io/instance-type=g6.xlarge")
	for _, tt := range []struct {
		name  string
		nodes []*corev1.Node
		rules cost.Rules
		want  string
	}{
		{"what the node says", []*corev1.Node{said}, lab, "0.50-0.50 USD"},
		{"what a PriceBook says of a node that says nothing", []*corev1.Node{silent}, lab, "2.00-2.00 EUR"},
		{"the list price without a PriceBook", []*corev1.Node{silent}, nil, "0.20-0.20 USD"},
		{"two currencies are not one range", []*corev1.Node{said, silent}, lab, "0.00-0.00 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := profile.NewCluster(tt.nodes, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.Priced(tt.rules, time.Time{})
			s, err := c.Offer(one(t, override("", `{extra_resource_limits: {nvidia.com/gpu: "1"}}`)))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%.2f-%.2f %s", float64(s.LeastPriceMicros)/1e6, float64(s.MostPriceMicros)/1e6, s.Currency); got != tt.want {
				t.Errorf("a GPU costs %q, want %q", got, tt.want)
			}
		})
	}
}

// rows: JH-03
func TestAProfileThatAGrowingPoolWouldServeIsNotHopeless(t *testing.T) {
	f := read(t, "t4.yaml")
	f.Check()
	c, err := profile.NewCluster([]*corev1.Node{node("plain", "", 0)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pools, err := pool.Parse("[{name: nb-g4dn, max: 4, memoryGiB: 16, labels: {node.kubernetes.io/instance-type: g4dn.xlarge}, gpus: {product: Tesla T4, count: 1}}]")
	if err != nil {
		t.Fatal(err)
	}
	c.Growing(pool.Grow(pools, nil))
	s, err := c.Offer(&f.Profiles[0].NotebookProfile)
	if err != nil {
		t.Fatal(err)
	}
	const want = "no node has the label node.kubernetes.io/instance-type=g4dn.xlarge; pool nb-g4dn can grow by 4: 4 x T4, and it would start on a new node of it"
	if s.Why != want || s.Never || s.Starts != "" || s.Pool != "nb-g4dn" {
		t.Errorf("it stands at %+v, want %q", s, want)
	}
	before := len(f.Findings)
	if f.CheckCluster(c); len(f.Findings) != before {
		t.Errorf("an empty pool is a finding: %v", f.Findings[before:])
	}
	c.Growing(pool.Grow(pools, []*corev1.Node{
		node("a", "", 0, "label:berth.dev/pool=nb-g4dn"), node("b", "", 0, "label:berth.dev/pool=nb-g4dn"),
		node("c", "", 0, "label:berth.dev/pool=nb-g4dn"), node("d", "", 0, "label:berth.dev/pool=nb-g4dn"),
	}))
	if f.CheckCluster(c); len(f.Findings) == before {
		t.Error("a pool that cannot grow is taken for one that can")
	}
}

// rows: JH-05 JH-28
func TestCheckCluster(t *testing.T) {
	f := read(t, "t4.yaml")
	f.Check()
	c, err := profile.NewCluster([]*corev1.Node{node("n", "Tesla-T4", 1, "label:node.kubernetes.io/instance-type=g4dn.xlarge")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := len(f.Findings)
	f.CheckCluster(c)
	if len(f.Findings) != before {
		t.Errorf("a node with 15Gi takes a notebook of 14G, but: %v", f.Findings[before:])
	}
	small := node("n", "Tesla-T4", 1, "label:node.kubernetes.io/instance-type=g4dn.xlarge")
	small.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("13Gi")
	if c, err = profile.NewCluster([]*corev1.Node{small}, nil); err != nil {
		t.Fatal(err)
	}
	f.CheckCluster(c)
	var found *profile.Finding
	for i := range f.Findings {
		if f.Findings[i].Code == profile.CodeTooLarge {
			found = &f.Findings[i]
		}
	}
	want := "t4.yaml:25: jupyterhub.singleuser.profileList[0].kubespawner_override.mem_guarantee: it asks for 14Gi of memory, and of the 1 node that it could use the largest, n, has 13Gi"
	if found == nil || found.String() != want || found.Level != profile.Doubt {
		t.Errorf("finding %v, want %s", found, want)
	}
}
