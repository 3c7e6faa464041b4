package explain_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

// refused is a pod that the scheduler has refused, changed by edits.
func refused(asks []any, edits ...func(*v1.Pod)) *v1.Pod {
	p := waits(asks, edits...)
	p.Status = v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}}
	return p
}

// big is a node of 4 A100s, 48 CPU, and 192 GiB in zone a, changed by edits.
func big(name string, edits ...func(*v1.Node)) *v1.Node {
	n := kubetest.Inventory(name, kubetest.A100s(name, 4), "cpu", 48, "memory", 192<<30, "pods", 110, "ephemeral-storage", 100<<30, api.ResourceGPU, 4)
	n.Labels[zoneLabel], n.Labels[api.LabelProduct], n.Labels["kubernetes.io/hostname"] = "a", "NVIDIA-A100-SXM4-40GB", name
	for _, edit := range edits {
		edit(n)
	}
	return n
}

// holds is a pod that holds the first GPUs of a node, and CPU.
func holds(name, node string, gpus, cpu int, edits ...func(*v1.Pod)) *v1.Pod {
	p := kubetest.Pod(name, node, "cpu", cpu)
	if gpus > 0 {
		p = kubetest.Pod(name, node, "cpu", cpu, api.ResourceGPU, gpus)
		var ids []string
		for k := range gpus {
			ids = append(ids, inventoryID(node, k))
		}
		kubetest.Observed(p, api.ResourceGPU, ids...)
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func labeled(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Labels[key] = value }
}

func portOf(n int32) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: n}} }
}

func selectorOf(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

func affinityOf(key string, op v1.NodeSelectorOperator, values ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}},
		}}}
	}
}

func byHost(app string) []v1.PodAffinityTerm {
	return []v1.PodAffinityTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: "kubernetes.io/hostname"}}
}

func cordon(n *v1.Node) { n.Spec.Unschedulable = true }

func lost(n *v1.Node) {
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown}}
}

// judged are causes made with objects: what each is, and what is said of it.
var judged = []struct {
	name  string
	code  reasons.Code
	nodes []*v1.Node
	pods  []*v1.Pod
	pod   *v1.Pod
	says  string   // in the sentence
	not   string   // not in the sentence
	helps []string // the first changes that are offered; nil is none
}{
	{
		"more CPU than any node has, while GPUs are free", reasons.CodeCPU,
		[]*v1.Node{big("a-1"), big("a-2")},
		[]*v1.Pod{holds("h", "a-1", 1, 1)},
		refused([]any{"cpu", 100, api.ResourceGPU, 1}),
		"NoSuchNode: it asks for 100 CPU, and no node that it may use has more than 48; ask for less", "no node has that many free",
		[]string{"ask for 48 of CPU at most"},
	},
	{
		"CPU that others hold, while GPUs are free", reasons.CodeCPU,
		[]*v1.Node{big("a-1")},
		[]*v1.Pod{holds("h", "a-1", 1, 40)},
		refused([]any{"cpu", 16, api.ResourceGPU, 1}),
		"it needs 16 CPU on one node, and at most 8 of 48 are free (on a-1)", "held by",
		[]string{"ask for 8 of CPU at most"},
	},
	{
		"memory that others hold", reasons.CodeMemory,
		[]*v1.Node{big("a-1")},
		[]*v1.Pod{kubetest.Pod("h", "a-1", "memory", 150<<30)},
		refused([]any{"memory", 64 << 30, api.ResourceGPU, 1}),
		"it needs 64Gi memory on one node, and at most 42Gi of 192Gi are free (on a-1)", "no node has that many free",
		[]string{"ask for 42Gi of memory at most"},
	},
	{
		"an init container that is too big", reasons.CodeInit,
		[]*v1.Node{big("a-1")},
		nil,
		refused([]any{"cpu", 1, api.ResourceGPU, 1}, func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "prep", Resources: v1.ResourceRequirements{Requests: kubetest.Amounts("cpu", 100)}}}
		}),
		"its init container prep asks for 100 CPU, and no node that it may use has more than 48", "",
		[]string{"ask for 48 of CPU at most"},
	},
	{
		"ephemeral storage", reasons.CodeStorage,
		[]*v1.Node{big("a-1")},
		nil, refused([]any{"ephemeral-storage", 200 << 30, api.ResourceGPU, 1}),
		" asks for 200Gi ephemeral-storage, and no node that it may use has more than 100Gi", "", nil,
	},
	{
		"a node with all pods that it may have", reasons.CodePods,
		[]*v1.Node{big("a-1", func(n *v1.Node) {
			n.Status.Allocatable = n.Status.Allocatable.DeepCopy()
			n.Status.Allocatable["pods"] = resource.MustParse("1")
		})},
		[]*v1.Pod{holds("h", "a-1", 0, 1)},
		refused([]any{api.ResourceGPU, 1}), "every pod that a-1 may have is there", "no node has that many free", nil,
	},
	{
		"cordoned nodes with free GPUs", reasons.CodeCordoned,
		[]*v1.Node{big("a-1", cordon)},
		nil, refused([]any{api.ResourceGPU, 1}),
		"node a-1 would do, but it is cordoned (kubectl uncordon a-1, if its work is done)", "no node has that many free", nil,
	},
	{
		"a node that is not ready", reasons.CodeNotReady,
		[]*v1.Node{big("a-1", lost)},
		nil, refused([]any{api.ResourceGPU, 1}),
		"node a-1 would do, but it is not ready (kubectl describe node a-1", "NODE", nil,
	},
	{
		"a host port", reasons.CodeHostPort,
		[]*v1.Node{big("a-1")},
		[]*v1.Pod{holds("h", "a-1", 1, 1, portOf(8080))},
		refused([]any{api.ResourceGPU, 1}, portOf(8080)),
		"a-1 host port 8080 is used by pod ns/h", "no node has that many free",
		[]string{"take hostPort 8080 out"},
	},
	{
		"a pod affinity that no pod meets", reasons.CodePodAffinity,
		[]*v1.Node{big("a-1")},
		nil,
		refused([]any{api.ResourceGPU, 1}, func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: byHost("db")}}
		}),
		"has no pod near that its pod affinity wants: app=db by kubernetes.io/hostname", "no node has that many free",
		[]string{"leave podAffinity out"},
	},
	{
		"a pod anti-affinity", reasons.CodeAntiAffinity,
		[]*v1.Node{big("a-1")},
		[]*v1.Pod{holds("h", "a-1", 1, 1, labeled("app", "web"))},
		refused([]any{api.ResourceGPU, 1}, func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: byHost("web")}}
		}),
		"has pod ns/h near, which a pod anti-affinity keeps apart from it", "no node has that many free",
		[]string{"leave podAntiAffinity out"},
	},
	{
		"the anti-affinity of another pod", reasons.CodeAntiAffinity,
		[]*v1.Node{big("a-1")},
		[]*v1.Pod{holds("h", "a-1", 1, 1, func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: byHost("web")}}
		})},
		refused([]any{api.ResourceGPU, 1}, labeled("app", "web")), "has pod ns/h near", "no node has that many free", nil,
	},
	{
		"a spread that allows no more on the only node with room", reasons.CodeSpread,
		[]*v1.Node{big("a-1"), big("a-2")},
		[]*v1.Pod{holds("h", "a-2", 4, 1), holds("w", "a-1", 1, 1, labeled("app", "web"))},
		refused([]any{api.ResourceGPU, 1}, labeled("app", "web"), func(p *v1.Pod) {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			}}
		}),
		"", "",
		[]string{"let topologySpreadConstraints be ScheduleAnyway"},
	},
	{
		"GPUs that others hold", reasons.CodeHeld,
		[]*v1.Node{big("a-1")},
		[]*v1.Pod{holds("h", "a-1", 4, 1)},
		refused([]any{api.ResourceGPU, 1}),
		"of 4 that nodes offer it, no node has that many free", "", nil,
	},
	{
		"GPUs that are free, and not on one node", reasons.CodeFragmented,
		[]*v1.Node{big("a-1"), big("a-2")},
		[]*v1.Pod{holds("h", "a-1", 2, 1), holds("i", "a-2", 2, 1)},
		refused([]any{api.ResourceGPU, 4}), "no node has that many free", "",
		[]string{"ask for 2 nvidia.com/gpu instead of 4"},
	},
	{
		"more GPUs than any node has", reasons.CodeTooLarge,
		[]*v1.Node{big("a-1")},
		nil, refused([]any{api.ResourceGPU, 9}),
		"NoSuchGPU: it asks for 9 nvidia.com/gpu, and no node that it may use has more than 4; ask for less", "",
		[]string{"ask for 4 nvidia.com/gpu instead of 9"},
	},
	{
		"a resource that is nearly right", reasons.CodeResourceName,
		[]*v1.Node{big("a-1")},
		nil, refused([]any{"nvidia.com/gpus", 1}),
		"no node offers nvidia.com/gpus (there are 1); nodes offer nvidia.com/gpu; did you mean nvidia.com/gpu?", "",
		[]string{"ask for nvidia.com/gpu instead of nvidia.com/gpus"},
	},
	{
		"another vendor's GPU", reasons.CodeVendor,
		[]*v1.Node{big("a-1")},
		nil, refused([]any{"amd.com/gpu", 1}),
		"no node offers amd.com/gpu (there are 1); nodes offer nvidia.com/gpu; did you mean nvidia.com/gpu?", "",
		[]string{"ask for nvidia.com/gpu instead of amd.com/gpu"},
	},
	{
		"no GPU in the cluster", reasons.CodeNoGPUNode,
		[]*v1.Node{kubetest.Foreign("cpu-1", nil, "cpu", 8)},
		nil, refused([]any{api.ResourceGPU, 1}),
		"NoSuchGPU: no node offers nvidia.com/gpu (there are 1)", "", nil,
	},
	{
		"a whole GPU where all are cut into MIG devices", reasons.CodeWholeOnMIG,
		[]*v1.Node{kubetest.Inventory("m-1", kubetest.Cut("m-1", kubetest.A100s("m-1", 2)), "cpu", 48, api.ResourceMIGPrefix+"1g.5gb", 14)},
		nil, refused([]any{api.ResourceGPU, 1}),
		"no node offers nvidia.com/gpu, because their GPUs are partitioned into MIG devices; nodes offer nvidia.com/mig-1g.5gb", "",
		[]string{"ask for nvidia.com/mig-1g.5gb instead of nvidia.com/gpu"},
	},
	{
		"a label that no node has", reasons.CodeSelector,
		[]*v1.Node{big("a-1")},
		nil, refused([]any{api.ResourceGPU, 1}, selectorOf(api.LabelProduct, "Tesla-V100")),
		"no node has the label nvidia.com/gpu.product=Tesla-V100; nodes have NVIDIA-A100-SXM4-40GB", "",
		[]string{"leave the node selector and affinity out"},
	},
	{
		"a required affinity, beside what nodes have", reasons.CodeLabelSuffix,
		[]*v1.Node{big("a-1", func(n *v1.Node) { n.Labels[api.LabelProduct] = "NVIDIA-A100-SXM4-40GB-SHARED" })},
		nil,
		refused([]any{api.ResourceGPU, 1}, affinityOf(api.LabelProduct, v1.NodeSelectorOpIn, "NVIDIA-A100-SXM4-40GB")),
		"no node has nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB; the label is NVIDIA-A100-SXM4-40GB-SHARED where GPUs are shared or partitioned", "",
		[]string{"leave the node selector and affinity out"},
	},
	{
		"an affinity to a label with a value that no node has", reasons.CodeLabelMissing,
		[]*v1.Node{big("a-1")},
		nil,
		refused([]any{api.ResourceGPU, 1}, selectorOf("nvidia.com/gpu", "true")), "no node has the label nvidia.com/gpu=true", "",
		[]string{"leave the node selector and affinity out"},
	},
	{
		"a taint", reasons.CodeTaint,
		[]*v1.Node{big("a-1", func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: "gpu", Value: "yes", Effect: v1.TaintEffectNoSchedule}}
		})},
		nil,
		refused([]any{api.ResourceGPU, 1}), "taints that it does not tolerate: gpu=yes:NoSchedule; add a toleration", "",
		[]string{"tolerate the taint gpu=yes:NoSchedule"},
	},
	{
		"a taint and too little CPU", reasons.CodeCPU,
		[]*v1.Node{big("a-1", func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: "gpu", Value: "yes", Effect: v1.TaintEffectNoSchedule}}
		})},
		nil,
		refused([]any{"cpu", 100, api.ResourceGPU, 1}), "", "",
		[]string{"tolerate the taint gpu=yes:NoSchedule, and ask for 48 of CPU at most"},
	},
	{
		"memory of one GPU that no GPU has", reasons.CodeGPUMemory,
		[]*v1.Node{big("a-1")},
		nil, refused([]any{api.ResourceGPUMemory, 60}),
		" asks for 60Gi of memory of one GPU, and no node that it may use has more than 40Gi; ask for less", "",
		[]string{"ask for 40 nvidia.com/gpu-memory instead of 60"},
	},
}

func TestTheHeadlineIsWhatBinds(t *testing.T) {
	for _, tt := range judged {
		t.Run(tt.name, func(t *testing.T) {
			on := trial(t, tt.nodes, tt.pods...)
			v := on.Judge(tt.pod)
			if got := v.Code(); got != tt.code && tt.says != "" {
				t.Errorf("code %s, want %s; causes %+v", got, tt.code, v.Causes)
			}
			s := explain.Situation{Pod: tt.pod, Nodes: tt.nodes, Pods: append(tt.pods, tt.pod)}
			facts := s.Facts(nil, kubetest.Started)
			r := reasons.Judge(&facts)
			said := string(r.Reason) + ": " + r.Message
			if !strings.Contains(said, tt.says) || tt.not != "" && strings.Contains(said, tt.not) {
				t.Errorf("it says %q\nwant    %q\nand not %q", said, tt.says, tt.not)
			}
			var helps []string
			for _, relief := range on.Reliefs(tt.pod) {
				helps = append(helps, relief.Change)
			}
			for i, want := range tt.helps {
				if i >= len(helps) || helps[i] != want {
					t.Errorf("helps %q, want %q", helps, tt.helps)
					break
				}
			}
			if tt.helps == nil && len(helps) > 0 {
				t.Errorf("helps %q, want none", helps)
			}
		})
	}
}
