package explain_test

import (
	"maps"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

// labeledNodes are nodes with the labels of GPU Feature Discovery: 8 A100s, 2 T4s with an
// older driver, and 4 A100s that are MIG devices under the strategy mixed.
func labeledNodes() []*v1.Node {
	node := func(name, product, memory, driver, cuda string, count int, more ...string) *v1.Node {
		n := kubetest.Foreign(name, kubetest.With(map[string]string{
			api.LabelProduct: product, api.LabelMemory: memory, "nvidia.com/cuda.driver.major": driver, "nvidia.com/cuda.runtime.major": cuda,
			"nvidia.com/cuda.driver-version.full": driver + ".90.07",
		}, more...), "cpu", 48, "memory", 192<<30, "pods", 110, api.ResourceGPU, count)
		return n
	}
	cut := node("c-mig", "NVIDIA-A100-SXM4-40GB", "40960", "550", "12", 0, "nvidia.com/mig.strategy", "mixed", api.LabelCount, "4")
	for _, list := range []v1.ResourceList{cut.Status.Capacity, cut.Status.Allocatable} {
		delete(list, api.ResourceGPU)
		maps.Copy(list, kubetest.Amounts(api.ResourceMIGPrefix+"1g.5gb", 28))
	}
	return []*v1.Node{
		node("a-a100", "NVIDIA-A100-SXM4-40GB", "40960", "550", "12", 8, api.LabelCount, "8"),
		node("b-t4", "Tesla-T4", "15360", "535", "11", 2, api.LabelCount, "2"), cut,
	}
}

// TestLabelsOfGPUsInTheWordsOfNodes explains a pod that selects nodes by what GPU Feature
// Discovery says of their GPUs: values that nodes have, with how many GPUs, and a change
// with which it fits.
//
// rows: GS-11 GS-65 AS-37
func TestLabelsOfGPUsInTheWordsOfNodes(t *testing.T) {
	one := []any{api.ResourceGPU, 1}
	for _, c := range []struct {
		name string
		pod  *v1.Pod
		code reasons.Code
		says string
		help string // the first
	}{
		{
			"more memory than any GPU has", refused(one, affinityOf(api.LabelMemory, v1.NodeSelectorOpGt, "70000")), reasons.CodeGPUMemory,
			"it wants GPUs with nvidia.com/gpu.memory > 70000, and no GPU has more memory than 40960 MiB; on nodes, nvidia.com/gpu.memory is in MiB: 40960 (12 GPUs), 15360 (2 GPUs)",
			"want nvidia.com/gpu.memory=40960 in its node affinity instead",
		},
		{
			"a label of another spelling", refused(one, selectorOf("gpu-memory", "40gb")), reasons.CodeLabelMissing,
			"no node has the label gpu-memory=40gb; on nodes, nvidia.com/gpu.memory is in MiB: 40960 (12 GPUs), 15360 (2 GPUs); select nvidia.com/gpu.memory=40960",
			"select nvidia.com/gpu.memory=40960 instead of gpu-memory=40gb",
		},
		{
			"gigabytes where nodes have MiB", refused(one, selectorOf(api.LabelMemory, "40Gi")), reasons.CodeSelector,
			"no node has the label nvidia.com/gpu.memory=40Gi; on nodes, nvidia.com/gpu.memory is in MiB: 40960 (12 GPUs), 15360 (2 GPUs); select nvidia.com/gpu.memory=40960",
			"select nvidia.com/gpu.memory=40960 instead",
		},
		{
			"80 GB by a node selector", refused(one, selectorOf("gpu-memory", "80gb")), reasons.CodeGPUMemory,
			"it wants GPUs with gpu-memory=80gb, and no GPU has more memory than 40960 MiB", "leave the node selector and affinity out",
		},
		{
			"a newer driver", refused(one, affinityOf("nvidia.com/cuda.driver.major", v1.NodeSelectorOpGt, "570")), reasons.CodeDriverOld,
			"no node has the driver that it wants, nvidia.com/cuda.driver.major > 570; nodes have 550 (12 GPUs), 535 (2 GPUs); use an image for one of these, or have the driver of nodes updated",
			"want nvidia.com/cuda.driver.major=550 in its node affinity instead",
		},
		{
			"an exact driver", refused(one, selectorOf("nvidia.com/cuda.driver-version.full", "570.10.01")), reasons.CodeDriverOld,
			"nvidia.com/cuda.driver-version.full=570.10.01; nodes have 550.90.07 (12 GPUs), 535.90.07 (2 GPUs)",
			"select nvidia.com/cuda.driver-version.full=550.90.07 instead",
		},
		{
			"a newer CUDA", refused(one, selectorOf("nvidia.com/cuda.runtime.major", "13")), reasons.CodeDriverOld,
			"no node has the CUDA that it wants, nvidia.com/cuda.runtime.major=13; nodes have 12 (12 GPUs), 11 (2 GPUs)",
			"select nvidia.com/cuda.runtime.major=12 instead",
		},
		{
			"the MIG strategy none, which nodes do not have as a label", refused(one, selectorOf("nvidia.com/mig.strategy", "none")), reasons.CodeMIGStrategy,
			"no node has the label nvidia.com/mig.strategy=none; nodes have mixed (4 GPUs), and 10 GPUs are on nodes without it; leave it out: nodes whose MIG strategy is none do not have the label",
			"leave the node selector and affinity out",
		},
		{
			"the MIG strategy single where nodes have mixed", refused([]any{api.ResourceMIGPrefix + "1g.5gb", 1}, selectorOf("nvidia.com/mig.strategy", "single")), reasons.CodeMIGStrategy,
			"no node has the label nvidia.com/mig.strategy=single; nodes have mixed (4 GPUs), and 10 GPUs are on nodes without it; leave it out, and ask for MIG devices by their own resources, as nvidia.com/mig-1g.5gb",
			"select nvidia.com/mig.strategy=mixed instead",
		},
		{
			"a whole GPU of nodes with MIG devices", refused(one, selectorOf("nvidia.com/mig.strategy", "mixed")), reasons.CodeWholeOnMIG,
			"no node that it selects offers nvidia.com/gpu, because their GPUs are partitioned into MIG devices; nodes offer nvidia.com/mig-1g.5gb",
			"leave the node selector and affinity out",
		},
		{
			"memory that is there, with a product that has less", refused(one, func(p *v1.Pod) {
				p.Spec.NodeSelector = map[string]string{api.LabelProduct: "Tesla-T4", api.LabelMemory: "40960"}
			}), reasons.CodeSelectorTwo,
			"each of the labels that it wants is on some node, and no node has all of them: nvidia.com/gpu.memory=40960 and nvidia.com/gpu.product=Tesla-T4; leave one of them out",
			"select nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB instead",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &explain.Situation{Pod: c.pod, Nodes: labeledNodes()}
			f := s.Facts(nil, c.pod.CreationTimestamp.Add(0))
			r := reasons.Judge(&f)
			if got := f.Code(&r); got != c.code || !strings.Contains(r.Message, c.says) {
				t.Errorf("%s %s\nwant %s, with %q", got, r.Message, c.code, c.says)
			}
			found, err := explain.Find(s, c.pod.CreationTimestamp.Add(0))
			if err != nil || len(found.Reliefs) == 0 || !strings.HasPrefix(found.Reliefs[0].Change, c.help) {
				t.Errorf("helps %v, %v; want %q first", found.Reliefs, err, c.help)
			}
			for _, h := range found.Reliefs {
				t.Log(h.Change)
			}
			for _, h := range found.Rejections {
				t.Log(h)
			}
		})
	}
}

// TestMemoryIsChosenByLabels has a pod ask for memory of one GPU on nodes that publish no
// inventory: it fits where a label says that a GPU has as much, GPU Feature Discovery's or,
// without that, one that people have written.
//
// rows: AS-65 GS-65
func TestMemoryIsChosenByLabels(t *testing.T) {
	offers := []any{"cpu", 48, "memory", 192 << 30, "pods", 110, api.ResourceGPU, 2}
	nodes := []*v1.Node{
		kubetest.Foreign("a-small", map[string]string{api.LabelMemory: "15360"}, offers...),
		kubetest.Foreign("b-by-hand", map[string]string{"gpu-memory": "40gb"}, offers...),
		kubetest.Foreign("c-large", map[string]string{api.LabelMemory: "81920"}, offers...),
	}
	for gib, want := range map[int]string{12: "a-small", 30: "b-by-hand", 70: "c-large", 90: ""} {
		c, err := explain.NewCluster(nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := c.Fits(refused([]any{api.ResourceGPUMemory, gib})); got != want {
			t.Errorf("%d GiB fits on %q, want %q", gib, got, want)
		}
	}
}

// TestNodesWithMIGDevicesAreCounted judges pods on nodes whose MIG devices placement cannot
// describe: those of a node without an inventory, and those that stand for nvidia.com/gpu
// under the strategy single. The last one is free, and then it is held.
//
// rows: GS-11
func TestNodesWithMIGDevicesAreCounted(t *testing.T) {
	single := map[string]string{"nvidia.com/mig.strategy": "single", api.LabelProduct: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.slices.gi": "1", api.LabelCount: "14"}
	profile := api.ResourceMIGPrefix + "1g.5gb"
	room := []any{"cpu", 48, "memory", 192 << 30, "pods", 110}
	published := kubetest.Inventory("n", kubetest.Cut("n", kubetest.A100s("n", 2)), append(room, api.ResourceGPU, 14)...)
	published.Annotations[api.AnnotationPluginConfig] = `{"migStrategy":"single"}`
	for name, c := range map[string]struct {
		node     *v1.Node
		resource string
	}{
		"mixed, without an inventory":  {kubetest.Foreign("n", map[string]string{"nvidia.com/mig.strategy": "mixed"}, append(room, profile, 14)...), profile},
		"single, without an inventory": {kubetest.Foreign("n", single, append(room, api.ResourceGPU, 14)...), api.ResourceGPU},
		"single, published":            {published, api.ResourceGPU},
	} {
		holder := kubetest.Pod("holder", "n", c.resource, 13)
		on, err := explain.NewCluster([]*v1.Node{c.node}, []*v1.Pod{holder})
		if err != nil {
			t.Fatal(err)
		}
		pod := refused([]any{c.resource, 1})
		if _, fits := on.Fits(pod); !fits {
			t.Errorf("%s: the last MIG device is free, and it does not fit: %v", name, on.Rejections(pod))
		}
		v := on.Judge(refused([]any{c.resource, 2}))
		if v.Code() != reasons.CodeHeld || v.Total != 14 || v.Free != 1 {
			t.Errorf("%s: 2 where 1 of 14 is free: %s, %d of %d free: %v", name, v.Code(), v.Free, v.Total, on.Rejections(refused([]any{c.resource, 2})))
		}
	}
}
