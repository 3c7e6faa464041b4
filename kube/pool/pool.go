// Package pool reads what an administrator declares of groups of equal nodes that
// come and go by need: how many there may be, and what a new one has. So GPUs that
// do not exist yet can be told of. It asks no cloud and makes no node: what an
// autoscaler will do is its own affair, and so is the cloud's quota.
package pool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/explain"
)

// Pool is a group of equal nodes, as it is declared.
type Pool struct {
	Name      string            `json:"name"`      // as the nodes' label of their pool has it: see api.PoolLabels
	Min       int               `json:"min"`       // nodes that are always there
	Max       int               `json:"max"`       // nodes that there may be
	CPU       int               `json:"cpu"`       // cores of a node; 0 is that it has enough
	MemoryGiB int               `json:"memoryGiB"` // of a node; 0 is that it has enough
	Labels    map[string]string `json:"labels"`    // of its nodes, beside those that follow from their GPUs
	Taints    []v1.Taint        `json:"taints"`
	GPUs      GPUs              `json:"gpus"` // of a node
}

// GPUs are the GPUs of one node.
type GPUs struct {
	Product string `json:"product"` // such as "Tesla T4", or its label form; "" is an unknown model
	Count   int    `json:"count"`
}

// Has reports whether a node is of the pool.
func (p *Pool) Has(n *v1.Node) bool {
	return slices.ContainsFunc(api.PoolLabels, func(key string) bool { return n.Labels[key] == p.Name })
}

// enough is what a node is taken to have of CPU cores and of GiB where its pool does
// not tell: more than any machine has.
const enough = 1 << 20

// Node is a new node of the pool as it will be when its device plugin runs: empty,
// ready, with the labels of GPU Feature Discovery. It names its pool by Berth's
// label, and by another where that is declared.
func (p *Pool) Node() *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a new node of pool " + p.Name, Labels: map[string]string{}}}
	product, known := gpu.Find(p.GPUs.Product)
	if known {
		n.Labels = gpu.Labels(gpu.Node{GPUs: gpu.New(p.Name, product, p.GPUs.Count)}, gpu.Sharing{})
	}
	n.Labels[api.LabelPool] = p.Name
	maps.Copy(n.Labels, p.Labels)
	n.Spec.Taints = slices.Clone(p.Taints)
	quantity := func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }
	n.Status.Capacity = v1.ResourceList{
		v1.ResourceCPU:    quantity(int64(cmp.Or(p.CPU, enough))),
		v1.ResourceMemory: quantity(int64(cmp.Or(p.MemoryGiB, enough)) << 30),
		v1.ResourcePods:   quantity(podsOfNode),
	}
	if p.GPUs.Count > 0 {
		n.Status.Capacity[api.ResourceGPU] = quantity(int64(p.GPUs.Count))
	}
	n.Status.Allocatable = n.Status.Capacity
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	return n
}

// podsOfNode is how many pods a kubelet takes unless it is told otherwise.
const podsOfNode = 110

// Growth is how far a pool can grow now.
type Growth struct {
	Pool
	Nodes int      // that it has
	By    int      // nodes that it can get more; 0 is none
	Idle  []string // of its nodes, those on which no GPU is held, sorted; see SetIdle
}

// SetIdle notes which of nodes are idle: holds reports whether GPUs of one are held.
func SetIdle(list []Growth, nodes []*v1.Node, holds func(node string) bool) {
	for i := range list {
		g := &list[i]
		g.Idle = nil
		for _, n := range nodes {
			if g.Has(n) && !holds(n.Name) {
				g.Idle = append(g.Idle, n.Name)
			}
		}
		slices.Sort(g.Idle)
	}
}

// Spare is how many of the idle nodes can go: Min stay.
func (g *Growth) Spare() int { return max(0, min(len(g.Idle), g.Nodes-g.Min)) }

// Grow tells of each pool, in their order, how many of nodes are of it and how many
// more there may be.
func Grow(pools []Pool, nodes []*v1.Node) []Growth {
	out := make([]Growth, len(pools))
	for i := range pools {
		out[i].Pool = pools[i]
		for _, n := range nodes {
			if pools[i].Has(n) {
				out[i].Nodes++
			}
		}
		out[i].By = max(0, pools[i].Max-out[i].Nodes)
	}
	return out
}

// String is how far a pool can grow, for a person: "can grow by 20: 20 x T4".
func (g *Growth) String() string {
	if g.By == 0 {
		return "cannot grow: " + strconv.Itoa(g.Max) + " is the most"
	}
	text := fmt.Sprintf("can grow by %d", g.By)
	if g.GPUs.Count == 0 {
		return text
	}
	return fmt.Sprintf("%s: %d x %s", text, g.By*g.GPUs.Count, g.model())
}

// model is the GPUs' model, for a person.
func (p *Pool) model() string {
	if p.GPUs.Product == "" {
		return "GPU"
	}
	model := p.GPUs.Product
	if product, known := gpu.Find(model); known {
		model = product.Name
	}
	return gpu.ShortName(model)
}

// Quota is what a cloud account's quotas have to allow for all nodes of a pool, for a person: "16 vCPUs (4 nodes of 4), 4 x T4". Amazon's count
// the vCPUs of kinds of machines, and Google's the GPUs of a model, each in a region; "" is that neither is declared.
func (p *Pool) Quota() string {
	var out []string
	if p.CPU > 0 {
		out = append(out, fmt.Sprintf("%d vCPUs (%d nodes of %d)", p.Max*p.CPU, p.Max, p.CPU))
	}
	if p.GPUs.Count > 0 {
		out = append(out, fmt.Sprintf("%d x %s", p.Max*p.GPUs.Count, p.model()))
	}
	return strings.Join(out, ", ")
}

// Start returns the first pool that can grow and on a new node of which pod would fit;
// nil is none. A volume of it, as ties tell, must be within reach of the labels that
// are declared.
func Start(list []Growth, pod *v1.Pod, volumes []explain.VolumeTopology) *Growth {
	for i := range list {
		if list[i].By == 0 {
			continue
		}
		fresh, err := explain.NewCluster([]*v1.Node{list[i].Node()}, nil)
		if err != nil {
			continue // not reached: the node is plain
		}
		fresh.SetVolumes(volumes)
		if _, ok := fresh.Fits(pod); ok {
			return &list[i]
		}
	}
	return nil
}
