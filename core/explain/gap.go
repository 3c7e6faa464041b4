package explain

import (
	"fmt"
	"strings"
)

// Check is one thing that a node must satisfy for a workload to be placed there.
type Check uint8

// The checks, those that are farthest from a place first.
const (
	CheckOffered      Check = iota // the node has nothing of a GPU resource
	CheckSelector                  // a label of the node selector
	CheckAffinity                  // the required node affinity
	CheckSharing                   // the way in which it would use GPUs there, by the rules of its queue
	CheckTaint                     // a taint that is not tolerated
	CheckVolume                    // a volume is elsewhere
	CheckClosed                    // cordoned, not ready, its device plugin down
	CheckGPUs                      // how many GPUs, MIG devices, or shares
	CheckGPUMemory                 // the memory of one GPU
	CheckClique                    // all GPUs in one NVLink clique
	CheckCPU                       // in thousandths of a core
	CheckMemory                    // in bytes, of the node
	CheckResource                  // any other resource: ephemeral storage, huge pages, extended resources
	CheckPods                      // how many pods the node may have
	CheckPort                      // a host port
	CheckPodAffinity               // pods that must be near
	CheckAntiAffinity              // pods that must not be near
	CheckSpread                    // a topology spread constraint with DoNotSchedule
	CheckQuota                     // the quota of its queue for the kind of GPUs
)

// Remedy is what removes a gap.
type Remedy uint8

// The remedies, the easiest first.
const (
	Waits Remedy = iota // it is gone when others leave
	Mends               // it is gone when the node is well again
	Never               // the workload or the cluster has to change
)

// Gap is one check that one node does not pass for a workload. Amounts are in the unit
// of the check; Needed 0 is a check without amounts.
type Gap struct {
	Check   Check
	Remedy  Remedy
	Subject string // what it is about: a resource, "KEY=VALUE", a taint, a claim, a port
	Has     string // what the node has instead, or who is in the way
	Needed  int64
	Free    int64 // of Total, what nobody holds
	Total   int64
	By      string // the container that asks for Needed by itself; "" is several or all
	Do      string // what would help; NODE stands for the names of the nodes
	// Driver is the DRA driver that offers Total devices of the node to claims, where the
	// node has none as a resource; "" is none.
	Driver string
}

// Missing is how much of what is needed the node lacks now.
func (g *Gap) Missing() int64 { return max(0, g.Needed-g.Free) }

// NodeGaps are all checks that one node does not pass. Without any it has room.
type NodeGaps struct {
	Node string
	Gaps []Gap // in the order of checks
}

// Worst is the hardest remedy among the gaps of a node.
func (n *NodeGaps) Worst() Remedy {
	out := Waits
	for i := range n.Gaps {
		out = max(out, n.Gaps[i].Remedy)
	}
	return out
}

// unoffered reports whether the node has nothing of what is asked for.
func (n *NodeGaps) unoffered() bool {
	return len(n.Gaps) > 0 && n.Gaps[0].Check == CheckOffered
}

// String is the gap as one node has it.
func (g *Gap) String() string {
	switch g.Check {
	case CheckOffered:
		if g.Driver != "" {
			return fmt.Sprintf("has %s only through the DRA driver %s, which Berth does not use for %s yet", devicesText(g.Total), g.Driver, g.Subject)
		}
		if g.Has != "" {
			return fmt.Sprintf("offers %s, and no %s", g.Has, g.Subject)
		}
		return "offers no " + g.Subject
	case CheckSelector:
		key, value, _ := strings.Cut(g.Subject, "=")
		if g.Has == "" {
			return fmt.Sprintf("has no label %s; its node selector wants %s", key, g.Subject)
		}
		return fmt.Sprintf("has %s=%s; its node selector wants %s", key, g.Has, value)
	case CheckAffinity:
		return fmt.Sprintf("has %s; its required node affinity wants %s", g.Has, g.Subject)
	case CheckSharing:
		return fmt.Sprintf("would have it use GPUs by %s, which queue %s does not allow", g.Subject, g.Has)
	case CheckTaint:
		return "has the taint " + g.Subject + ", which the pod does not tolerate"
	case CheckVolume:
		return "out of reach of volume claim " + g.Subject + ", whose volume " + g.Has
	case CheckClosed:
		return g.Subject
	case CheckPort:
		return fmt.Sprintf("host port %s is used by %s", g.Subject, g.Has)
	case CheckPodAffinity:
		return "has no pod near that its pod affinity wants: " + g.Subject
	case CheckAntiAffinity:
		return "has " + g.Has + " near, which a pod anti-affinity keeps apart from it: " + g.Subject
	case CheckSpread:
		return "has " + g.Has + "; its topology spread constraint allows no more: " + g.Subject
	case CheckQuota:
		return "its queue " + g.Subject + " has no quota for these GPUs now"
	case CheckGPUs, CheckGPUMemory, CheckClique, CheckCPU, CheckMemory, CheckResource, CheckPods:
	}
	return g.amounts()
}

func devicesText(n int64) string {
	if n == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", n)
}

// amounts is a gap in an amount.
func (g *Gap) amounts() string {
	unit := g.unit()
	switch {
	case g.Check == CheckClique:
		return "has enough free GPUs, but not in one NVLink clique"
	case g.Check == CheckGPUs && g.Remedy == Mends:
		return fmt.Sprintf("can give out %d of its %d %s%s", g.Free, g.Total, g.Subject, g.Has)
	case g.Check == CheckGPUs && g.Remedy == Never:
		return fmt.Sprintf("has %d %s in all, fewer than %d", g.Total, g.Subject, g.Needed)
	case g.Check == CheckGPUs:
		return g.Has
	case g.Check == CheckGPUMemory && g.Remedy == Never:
		return fmt.Sprintf("its GPUs have %s of memory, less than %s", bytesText(g.Total), bytesText(g.Needed))
	case g.Check == CheckGPUMemory:
		return fmt.Sprintf("no GPU with %s free: at most %s", bytesText(g.Needed), bytesText(g.Free))
	case g.Check == CheckPods:
		return fmt.Sprintf("has all %d pods that it may have", g.Total)
	case g.Remedy == Never:
		return fmt.Sprintf("has %s %s in all, fewer than %s", g.text(g.Total), unit, g.text(g.Needed))
	}
	return fmt.Sprintf("%s of %s %s free, fewer than %s", g.text(g.Free), g.text(g.Total), unit, g.text(g.Needed))
}

// unit is what amounts of a gap are of.
func (g *Gap) unit() string {
	switch g.Check { //nolint:exhaustive // the rest names its subject
	case CheckCPU:
		return "CPU"
	case CheckMemory:
		return "memory"
	case CheckGPUMemory:
		return "GPU memory"
	case CheckPods:
		return "pods"
	}
	return g.Subject
}

// text writes an amount in the unit of the gap.
func (g *Gap) text(n int64) string {
	switch {
	case g.Check == CheckCPU:
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%03d", n/1000, n%1000), "0"), ".")
	case g.Check == CheckMemory || g.Check == CheckGPUMemory || g.Subject == "ephemeral-storage" || strings.HasPrefix(g.Subject, "hugepages-"):
		return bytesText(n)
	}
	return fmt.Sprint(n)
}

// bytesText writes bytes as GiB or MiB, down to tenths.
func bytesText(n int64) string {
	if n >= 1<<30 || n == 0 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<30)), ".0") + "Gi"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<20)), ".0") + "Mi"
}
