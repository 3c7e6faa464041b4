package devices

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/request"
)

const (
	// UnknownUUID stands for the UUID of a GPU that is not published.
	UnknownUUID = "unknown"

	labelMIGStrategy = "nvidia.com/mig.strategy"
	labelSlices      = "nvidia.com/gpu.slices.gi"
	labelSharing     = api.ResourceGPU + sharingSuffix
	labelGKEProduct  = "cloud.google.com/gke-accelerator"

	mostSlices = 7 // compute slices of every MIG product but the A30
)

// machine is what is known of a node's GPUs before any pod is counted.
type machine struct {
	node     *v1.Node
	product  string // label form, such as "NVIDIA-A100-SXM4-40GB"
	model    gpu.Product
	gpus     []GPU
	err      error // why the inventory cannot be read
	named    bool  // GPUs are those of an inventory, with indexes and UUIDs
	replicas int   // shares of each device behind nvidia.com/gpu; at least 1
	single   bool  // MIG devices stand for nvidia.com/gpu
}

func readMachine(node *v1.Node) machine {
	m := machine{node: node}
	var list []InventoryGPU
	if list, m.err = Inventory(node); m.err != nil {
		list = nil // an annotation that cannot be read is as good as none
	}
	m.named = len(list) > 0
	m.product = m.productName(list)
	m.model, _ = gpu.Find(m.product)
	m.single = m.label(labelMIGStrategy) == string(gpu.MIGSingle) && m.number(labelSlices) > 0
	m.replicas = m.readReplicas(list)
	if m.named {
		for _, g := range list {
			m.gpus = append(m.gpus, m.known(g))
		}
		slices.SortStableFunc(m.gpus, func(a, b GPU) int { return cmp.Compare(a.Index, b.Index) })
		return m
	}
	m.anonymous()
	return m
}

func (m *machine) label(key string) string { return m.node.Labels[key] }

// number reads a label that is a count; anything else is 0. Nodes carry no
// more than 1,024 of anything here, so that a wild label costs no memory.
func (m *machine) number(key string) int {
	n, err := strconv.Atoi(m.label(key))
	if err != nil {
		return 0
	}
	return min(max(n, 0), 1024)
}

func (m *machine) capacity(resource string) int {
	q := m.node.Status.Capacity[v1.ResourceName(resource)]
	return int(max(request.Amount(&q, 1<<16), 0))
}

func (m *machine) allocatable(resource string) int {
	q := m.node.Status.Allocatable[v1.ResourceName(resource)]
	return int(max(request.Amount(&q, 1<<16), 0))
}

// productName returns the product in label form: of the inventory, the one with
// the most GPUs; else of the labels, without the suffixes of sharing and MIG.
func (m *machine) productName(list []InventoryGPU) string {
	count, best := map[string]int{}, ""
	for _, g := range list {
		name := labelForm(g.Product)
		if count[name]++; count[name] > count[best] {
			best = name
		}
	}
	if best != "" {
		return best
	}
	return cmp.Or(gpu.BareLabel(m.label(api.LabelProduct)), m.label(labelGKEProduct), UnknownUUID)
}

func labelForm(product string) string { return strings.ReplaceAll(product, " ", "-") }

func (m *machine) readReplicas(list []InventoryGPU) int {
	if n := m.number(api.LabelReplicas); n > 1 {
		return n
	}
	for _, g := range list {
		if g.Shares > 1 {
			return g.Shares
		}
	}
	offered := m.capacity(api.ResourceGPU) + m.capacity(api.ResourceGPUShared)
	if n := m.number(api.LabelCount); n > 0 && offered > n && offered%n == 0 && !m.named {
		return offered / n
	}
	return 1
}

func (m *machine) known(g InventoryGPU) GPU {
	out := GPU{
		Index: g.Index, UUID: g.UUID, Product: labelForm(g.Product), MemoryBytes: g.MemoryBytes,
		Healthy: g.Healthy, Xid: g.Xid, Shares: g.Shares, ComputeSlices: g.ComputeSlices, Clique: g.Clique, NUMANode: -1,
	}
	if g.NUMANode != nil {
		out.NUMANode = *g.NUMANode
	}
	for _, d := range g.MIG {
		device := MIGDevice{InventoryMIG: d}
		if n := m.migReplicas(d.Profile); n > 1 {
			device.Shares = n
		}
		out.MIG = append(out.MIG, device)
	}
	return out
}

// anonymous makes the GPUs of a node that has no inventory: as many as labels
// and capacity tell, without index or UUID. They are alike, so that it does
// not matter which of them a pod is counted on.
func (m *machine) anonymous() {
	memory, err := strconv.ParseInt(m.label(api.LabelMemory), 10, 40) // MiB
	if err != nil || memory < 0 || memory > request.MostBytes>>20 || m.single {
		memory = m.model.MemoryMiB // with single, the label tells of one MIG device
		if memory == 0 && !m.single {
			memory = memoryByHand(m.node)
		}
	}
	shares := 0
	if m.replicas > 1 && !m.single {
		shares = m.replicas
	}
	n := m.physical()
	for range n {
		m.gpus = append(m.gpus, GPU{
			Index: -1, UUID: UnknownUUID, Product: m.product, MemoryBytes: memory << 20, Healthy: true, Shares: shares, NUMANode: -1,
		})
	}
	for i := range min(n, m.missing().gpus()) {
		m.gpus[n-1-i].Healthy = false
	}
}

// physical counts the cards of a node without an inventory.
func (m *machine) physical() int {
	count := m.number(api.LabelCount)
	if count > 0 && !m.single {
		return count
	}
	if m.single {
		profile := m.migProfile()
		each := max(1, m.computeSlices()/max(1, migSlices(profile)))
		if p, ok := m.model.Profile(profile); ok {
			each = max(1, p.Max)
		}
		if count == 0 {
			count = m.capacity(api.ResourceGPU) / m.replicas
		}
		return (count + each - 1) / each
	}
	cut := part(0)
	for _, name := range m.migResources() {
		cut += part(m.capacity(name)) * m.unit(name)
	}
	whole := (m.capacity(api.ResourceGPU) + m.capacity(api.ResourceGPUShared)) / m.replicas
	return min(whole+cut.gpus(), 1024)
}

// missing is how much of the node's GPUs is capacity but not allocatable.
func (m *machine) missing() part {
	gone := part(0)
	for _, name := range m.deviceResources() {
		gone += part(m.capacity(name)-m.allocatable(name)) * m.unit(name)
	}
	return max(0, gone)
}

// deviceResources lists what the device plugin offers here, sorted. Memory is
// not among it, as it is the same GPUs again.
func (m *machine) deviceResources() []string {
	return append(m.migResources(), api.ResourceGPU, api.ResourceGPUShared)
}

func (m *machine) migResources() []string {
	var out []string
	for name := range m.node.Status.Capacity {
		if strings.HasPrefix(string(name), api.ResourceMIGPrefix) {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return out
}

// unit is how much of one physical GPU a unit of a resource stands for.
func (m *machine) unit(resource string) part {
	switch {
	case resource == api.ResourceGPUMemory:
		return oneGPU.times(gib, m.memory())
	case strings.HasPrefix(resource, api.ResourceMIGPrefix):
		name := strings.TrimSuffix(resource, ".shared")
		cut := migSlices(strings.TrimPrefix(name, api.ResourceMIGPrefix))
		return oneGPU.times(int64(cut), int64(m.computeSlices())) / part(max(1, m.number(name+".replicas")))
	case m.single:
		return oneGPU.times(int64(m.number(labelSlices)), int64(m.computeSlices())) / part(m.replicas)
	}
	return oneGPU / part(m.replicas)
}

// migReplicas is into how many shares each MIG device of a profile is divided.
func (m *machine) migReplicas(profile string) int {
	if m.single {
		return m.replicas
	}
	return max(1, m.number(gpu.MIGResource(profile)+".replicas"))
}

func (m *machine) memory() int64 {
	if len(m.gpus) == 0 {
		return 0
	}
	return m.gpus[0].MemoryBytes
}

func (m *machine) computeSlices() int {
	for _, g := range m.gpus {
		if g.ComputeSlices > 0 {
			return g.ComputeSlices
		}
	}
	return cmp.Or(m.model.ComputeSlices, mostSlices)
}

// migProfile reads the profile out of a product label of strategy single, such
// as "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED".
func (m *machine) migProfile() string {
	_, profile, _ := strings.Cut(m.label(api.LabelProduct), "-MIG-")
	return strings.TrimSuffix(profile, "-SHARED")
}

// migSlices returns the compute slices of a MIG profile: 3 of "3g.20gb", 1 of
// "1c.3g.20gb", 0 of what is no profile.
func migSlices(profile string) int {
	first, _, _ := strings.Cut(profile, ".")
	n, err := strconv.Atoi(strings.TrimRight(first, "cg"))
	if err != nil || n < 0 || n > 8 {
		return 0
	}
	return n
}
