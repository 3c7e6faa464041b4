package pool_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/pool"
)

// declared is the pool of the how-to's Terraform, and a large one after it.
const declared = `
- name: gpu-t4
  min: 0
  max: 20
  cpu: 8
  memoryGiB: 52
  labels: {node.kubernetes.io/instance-type: n1-highmem-8, topology.kubernetes.io/zone: us-central1-a}
  taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
  gpus: {product: Tesla T4, count: 1}
- {name: big, max: 2, gpus: {product: NVIDIA-A100-SXM4-80GB, count: 8}}
- {name: plain, min: 1, max: 3}
`

func parse(t *testing.T, text string) []pool.Pool {
	t.Helper()
	list, err := pool.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func node(name, key, value string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{key: value}}}
}

// rows: JH-01 JH-03
func TestPoolsGrowByWhatIsDeclaredLessWhatIsThere(t *testing.T) {
	pools := parse(t, declared)
	for _, tt := range []struct {
		name  string
		nodes []*v1.Node
		want  string // of gpu-t4
	}{
		{"with no node", nil, "0: can grow by 20: 20 x T4"},
		{"on GKE", []*v1.Node{node("a", "cloud.google.com/gke-nodepool", "gpu-t4")}, "1: can grow by 19: 19 x T4"},
		{"on EKS", []*v1.Node{node("a", "eks.amazonaws.com/nodegroup", "gpu-t4")}, "1: can grow by 19: 19 x T4"},
		{"by eksctl", []*v1.Node{node("a", "alpha.eksctl.io/nodegroup-name", "gpu-t4")}, "1: can grow by 19: 19 x T4"},
		{"on AKS", []*v1.Node{node("a", "kubernetes.azure.com/agentpool", "gpu-t4")}, "1: can grow by 19: 19 x T4"},
		{"by Karpenter", []*v1.Node{node("a", "karpenter.sh/nodepool", "gpu-t4")}, "1: can grow by 19: 19 x T4"},
		{"by kops", []*v1.Node{node("a", "kops.k8s.io/instancegroup", "gpu-t4")}, "1: can grow by 19: 19 x T4"},
		{"without a cloud", []*v1.Node{node("a", "berth.dev/pool", "gpu-t4")}, "1: can grow by 19: 19 x T4"},
		{"nodes of other pools do not count", []*v1.Node{node("a", "berth.dev/pool", "big"), node("b", "team", "gpu-t4")}, "0: can grow by 20: 20 x T4"},
		{"at its most", twenty(20), "20: cannot grow: 20 is the most"},
		{"beyond its most", twenty(21), "21: cannot grow: 20 is the most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := pool.Grow(pools, tt.nodes)
			if got := fmt.Sprintf("%d: %s", g[0].Nodes, &g[0]); len(g) != 3 || got != tt.want {
				t.Errorf("it grows %q of %d pools, want %q", got, len(g), tt.want)
			}
		})
	}
	g := pool.Grow(pools, nil)
	if got := g[1].String() + "; " + g[2].String(); got != "can grow by 2: 16 x A100-80GB; can grow by 3" {
		t.Errorf("the others grow %q", got)
	}
}

func twenty(n int) (out []*v1.Node) {
	for i := range n {
		out = append(out, node(fmt.Sprint(i), "berth.dev/pool", "gpu-t4"))
	}
	return out
}

func TestAPodStartsOnANewNodeOfTheFirstPoolThatWouldDo(t *testing.T) {
	tolerant := func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} }
	selecting := func(key, value string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
	}
	for _, tt := range []struct {
		name  string
		gpus  int64
		edit  []func(*v1.Pod)
		nodes []*v1.Node
		ties  []explain.VolumeTopology
		want  string
	}{
		{"one that tolerates the taint", 1, []func(*v1.Pod){tolerant}, nil, nil, "gpu-t4"},
		{"one that does not goes to the next", 1, nil, nil, nil, "big"},
		{"one that is too large for a node too", 2, []func(*v1.Pod){tolerant}, nil, nil, "big"},
		{"one that no node would hold has none", 9, []func(*v1.Pod){tolerant}, nil, nil, ""},
		{"of the model that it selects", 1, []func(*v1.Pod){tolerant, selecting("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB")}, nil, nil, "big"},
		{"by a label that is declared", 1, []func(*v1.Pod){tolerant, selecting("node.kubernetes.io/instance-type", "n1-highmem-8")}, nil, nil, "gpu-t4"},
		{"by a label that nobody declares", 1, []func(*v1.Pod){tolerant, selecting("team", "a")}, nil, nil, ""},
		{"with more memory than a node has", 1, []func(*v1.Pod){tolerant, func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("53Gi")}
		}}, nil, nil, "big"},
		{"a pool at its most is passed over", 1, []func(*v1.Pod){tolerant}, twenty(20), nil, "big"},
		{"a volume in the pool's zone", 1, []func(*v1.Pod){tolerant}, nil, tied("us-central1-a"), "gpu-t4"},
		{"a volume in another zone", 1, []func(*v1.Pod){tolerant}, nil, tied("us-central1-b"), ""},
		{"without GPUs the first will do", 0, []func(*v1.Pod){tolerant}, nil, nil, "gpu-t4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}}
			if tt.gpus > 0 {
				p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(tt.gpus, resource.DecimalSI)}
			}
			for _, edit := range tt.edit {
				edit(p)
			}
			if tt.ties != nil {
				p.Spec.Volumes = home()
			}
			got := ""
			if g := pool.Start(pool.Grow(parse(t, declared), tt.nodes), p, tt.ties); g != nil {
				got = g.Name
			}
			if got != tt.want {
				t.Errorf("it starts on a new node of %q, want %q", got, tt.want)
			}
		})
	}
}

// home returns the volumes of a pod with the claim home.
func home() []v1.Volume {
	return []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "home"}}}}
}

// tied returns what ties a pod to nodes whose volume of claim home is in a zone.
func tied(zone string) []explain.VolumeTopology {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d"}, Spec: v1.PodSpec{Volumes: home()}}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "home"}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: "v"}}
	volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: v1.PersistentVolumeSpec{NodeAffinity: &v1.VolumeNodeAffinity{
		Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{zone}},
		}}}},
	}}}
	return explain.VolumeTopologies(p, []*v1.PersistentVolumeClaim{claim}, []*v1.PersistentVolume{volume})
}

func TestWhatIsWrongWithADeclarationIsSaid(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"no list", "pools: 3", "not a list of pools: pools.yaml:1: must be a list"},
		{"an unknown field", "[{name: a, max: 1, maximum: 2}]", "pools.yaml:1: [0].maximum: unknown field; known fields are name, min, max"},
		{"no name", "[{max: 1}]", "pool 1: it has no name; write the one that the label of its nodes has"},
		{"no max", "[{name: a}]", "pool a: min 0, max 0: write 0 or more for min, and for max at least 1"},
		{"more than there may be", "[{name: a, min: 3, max: 2}]", "pool a: min 3, max 2: "},
		{"twice", "[{name: a, max: 1}, {name: a, max: 2}]", "pool a is declared twice; leave one out"},
		{"a model that is not known", "[{name: a, max: 1, gpus: {product: Tesla T44, count: 1}}]", `pool a: gpus.product "Tesla T44" is not known; write one of `},
		{"a model without a number", "[{name: a, max: 1, gpus: {product: Tesla T4}}]", `pool a: gpus.product is "Tesla T4", and gpus.count is not said`},
		{"too many GPUs", "[{name: a, max: 1, gpus: {count: 257}}]", "pool a: gpus.count 257: a node has 0 to 256"},
		{"more nodes than there are", "[{name: a, max: 9223372036854775807}]", "pool a: max 9223372036854775807: a pool has at most 1048576 nodes"},
		{"more memory than bytes can count", "[{name: a, max: 1, memoryGiB: 9000000000}]", "pool a: cpu 0, memoryGiB 9000000000: write what a node has, at most 1048576 of each"},
		{"no memory at all", "[{name: a, max: 1, memoryGiB: -1}]", "pool a: cpu 0, memoryGiB -1: "},
		{"a taint without an effect", "[{name: a, max: 1, taints: [{key: x}]}]", `pool a: taint "x": it has a key, and its effect is NoSchedule, `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := pool.Parse(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if list, err := pool.Parse(""); err != nil || len(list) != 0 {
		t.Errorf("nothing is %v, %v; want no pool", list, err)
	}
}

func TestPoolsAreReadWhereTheyAreDeclared(t *testing.T) {
	client := fake.NewClientset()
	if list, err := pool.Read(t.Context(), client); err != nil || list != nil {
		t.Errorf("without a ConfigMap: %v, %v; want none", list, err)
	}
	m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: pool.Name}, Data: map[string]string{pool.Key: declared}}
	client = fake.NewClientset(m)
	if list, err := pool.Read(t.Context(), client); err != nil || len(list) != 3 || list[0].Name != "gpu-t4" {
		t.Errorf("declared: %v, %v; want three, the first gpu-t4", list, err)
	}
	m.Data[pool.Key] = "[{name: a}]"
	if _, err := pool.Read(t.Context(), fake.NewClientset(m)); err == nil || !strings.HasPrefix(err.Error(), "read pools.yaml of ConfigMap kube-system/berth-pools: pool a: ") {
		t.Errorf("wrong: %v, want where it stands", err)
	}
	answer := func(err error) *fake.Clientset {
		c := fake.NewClientset()
		c.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, apiruntime.Object, error) { return true, nil, err })
		return c
	}
	if list, err := pool.Read(t.Context(), answer(apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, pool.Name, nil))); err != nil || list != nil {
		t.Errorf("forbidden: %v, %v; want none", list, err)
	}
	broken := errors.New("no route")
	if _, err := pool.Read(t.Context(), answer(broken)); !errors.Is(err, broken) {
		t.Errorf("unreachable: %v, want %v", err, broken)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[{name: a, min: 1, max: 20, cpu: 8, memoryGiB: 64, gpus: {product: Tesla T4, count: 4}}]")
	f.Add("[{name: a, max: 9223372036854775807, cpu: -1, memoryGiB: 9000000000, gpus: {count: 3000000}}]")
	f.Add("a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\n" +
		"e: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g]")
	f.Add(strings.Repeat("[", 200_000))
	f.Fuzz(func(t *testing.T, text string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		list, err := pool.Parse(text)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20+uint64(1000*len(text)) {
			t.Errorf("Parse of %d bytes allocates %d MiB", len(text), got>>20)
		}
		if err != nil {
			return
		}
		for i := range list {
			for name, q := range list[i].Node().Status.Capacity {
				if q.Sign() < 0 {
					t.Errorf("a node of pool %s has %s of %s", list[i].Name, q.String(), name)
				}
			}
		}
	})
}

func TestIdleNodesCanGoButForTheLeast(t *testing.T) {
	nodes := []*v1.Node{node("c", "pool", "t4"), node("a", "pool", "t4"), node("b", "pool", "t4"), node("d", "pool", "other"), node("e", "none", "")}
	for _, n := range nodes[:4] {
		n.Labels = map[string]string{api.LabelPool: n.Labels["pool"]}
	}
	for _, tt := range []struct {
		name  string
		least int
		held  []string
		idle  []string
		spare int
	}{
		{"none is held, and the pool may be empty", 0, nil, []string{"a", "b", "c"}, 3},
		{"none is held, and two stay", 2, nil, []string{"a", "b", "c"}, 1},
		{"one is held", 0, []string{"b"}, []string{"a", "c"}, 2},
		{"one is held, and one stays: it is that one", 1, []string{"b"}, []string{"a", "c"}, 2},
		{"the pool has fewer than its least", 9, nil, []string{"a", "b", "c"}, 0},
		{"all are held", 0, []string{"a", "b", "c"}, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := pool.Grow([]pool.Pool{{Name: "t4", Min: tt.least, Max: 9}}, nodes)
			pool.SetIdle(list, nodes, func(name string) bool { return slices.Contains(tt.held, name) })
			if !slices.Equal(list[0].Idle, tt.idle) || list[0].Spare() != tt.spare {
				t.Errorf("idle are %v, and %d can go; want %v and %d", list[0].Idle, list[0].Spare(), tt.idle, tt.spare)
			}
		})
	}
}

// rows: ML-11 JH-07
func TestNodeGroupsOfCloudsAsThePageDeclaresThem(t *testing.T) {
	page, err := os.ReadFile("../../docs/gpu-nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### Node groups of EKS, GKE, and AKS\n")
	_, text, _ := strings.Cut(section, "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	pools := parse(t, text)
	tolerate := func(key string) []v1.Toleration { return []v1.Toleration{{Key: key, Operator: v1.TolerationOpExists}} }
	for i, want := range []struct {
		name, machine string
		tolerations   []v1.Toleration
		quota         string
	}{
		{"gpu-nodes", "g4dn.xlarge", nil, "12 vCPUs (3 nodes of 4), 3 x T4"},
		{"gpu-pool", "n1-standard-4", tolerate("nvidia.com/gpu"), "12 vCPUs (3 nodes of 4), 3 x T4"},
		{"gpupool", "Standard_NC4as_T4_v3", tolerate("sku"), "12 vCPUs (3 nodes of 4), 3 x T4"},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d"}, Spec: v1.PodSpec{
			NodeSelector: map[string]string{"workload": "gpu", "node.kubernetes.io/instance-type": want.machine},
			Containers:   []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}},
		}}
		starts := func() string {
			if g := pool.Start(pool.Grow(pools, nil), p, nil); g != nil {
				return g.Name
			}
			return ""
		}
		if got := starts(); want.tolerations != nil && got != "" {
			t.Errorf("without a toleration it starts on a new node of %q", got)
		}
		p.Spec.Tolerations = want.tolerations
		if got := starts(); got != want.name || pools[i].Quota() != want.quota || !strings.Contains(section, want.machine+" ") {
			t.Errorf("the pod starts on a new node of %q, whose quota is %q; want %s, %s", got, pools[i].Quota(), want.name, want.quota)
		}
	}
}
