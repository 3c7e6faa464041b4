package explain

import (
	"cmp"
	"fmt"
	"strings"

	"berth.dev/berth/core/queue"
)

// Offer is what the nodes offer of the GPUs that a pod asks for, whoever
// holds them.
type Offer struct {
	Nodes    int    // that there are
	Offering int    // of them, offer all that it asks for, in whatever number
	Broken   int    // of them, have it, and nothing of it can be given out
	Allowed  int    // of Offering, may be used by it: node selector, affinity and taints
	Enough   int    // of Allowed, are large enough when they are empty
	Resource string // what it asks for, or what no node has enough of
	Asked    int64  // of Resource
	Most     int64  // of Resource, on one node of Allowed
	Total    int64  // of Resource, on all nodes of Allowed
	// Labels are those of its node selector that no node has, as KEY=VALUE, sorted.
	Labels []string
	// Has are the values that nodes have of the key of the first of Labels, sorted.
	Has    []string
	Near   string   // the label of a node that comes nearest to the first of Labels; "" is none
	Taints []string // of nodes of Offering that it does not tolerate, sorted, each once
}

// Rivals are the workloads that hold what one waits for. Those of other namespaces
// are counted, and not named.
type Rivals struct {
	Here      string // those of its namespace, as text: "a (2) and b (1)"; "" is none
	Elsewhere int64  // devices that those of other namespaces hold
	Are       string // what they are, as "notebooks"; "" is "workloads"
}

func (r Rivals) String() string {
	switch {
	case r.Here != "" && r.Elsewhere > 0:
		return fmt.Sprintf("%s, and %d by %s of other namespaces", r.Here, r.Elsewhere, cmp.Or(r.Are, "workloads"))
	case r.Elsewhere > 0:
		return fmt.Sprintf("%s of other namespaces (%d)", cmp.Or(r.Are, "workloads"), r.Elsewhere)
	}
	return r.Here
}

// unplaced says why a pod has no node.
func (f *Facts) unplaced() (Reason, string) {
	c := f.Pod.condition(ConditionScheduled)
	if c == nil || c.Status != False {
		if f.Place.At > 0 {
			return Queued, "waits for " + f.wants() + ", " + f.Place.String()
		}
		return Starting, placing
	}
	text, wait := queue.Marked(c.Message)
	switch {
	case c.Reason == "SchedulingGated" && wait == queue.Unknown:
		return Queued, "blocked by scheduling gates, which their owner must remove: " + text
	case strings.Contains(text, `persistentvolumeclaim "`) && strings.Contains(text, "not found"):
		name := quoted(text, `persistentvolumeclaim "`)
		return MissingVolume, fmt.Sprintf("volume claim %s does not exist in namespace %s; make it, and it starts", name, f.Namespace)
	case strings.Contains(text, `persistentvolumeclaim "`) && strings.Contains(text, "is being deleted"):
		return MissingVolume, "volume claim " + quoted(text, `persistentvolumeclaim "`) + " is being deleted; make it anew when it is gone"
	case strings.Contains(text, "unbound immediate PersistentVolumeClaims"):
		return MissingVolume, fmt.Sprintf("a volume claim of it (%s) has no volume yet; kubectl describe pvc -n %s says why",
			strings.Join(f.Claims, ", "), f.Namespace)
	case f.Pod.ExcludedFromVolume():
		used := f.InUse
		if used == "" {
			used = "a volume of it (" + strings.Join(f.Claims, ", ") + ") is used by another pod"
		}
		return VolumeInUse, used + ", and only one pod may use it at a time (ReadWriteOncePod); stop that one, or use another claim"
	}
	if why := f.Offer.Lacks(); why != "" && len(f.GPUs) > 0 {
		return NoSuchGPU, why
	}
	return Queued, f.waits(text)
}

// ExcludedFromVolume says whether a pod has no node because another uses a volume of
// it that only one pod may use, as the scheduler's plugin VolumeRestrictions says it.
func (p *Pod) ExcludedFromVolume() bool {
	c := p.condition(ConditionScheduled)
	return c != nil && c.Status == False && strings.Contains(c.Message, "ReadWriteOncePod")
}

func (f *Facts) wants() string {
	if len(f.GPUs) == 0 {
		return "room"
	}
	return Amounts(f.GPUs)
}

// waits says what a pod waits for that will fit when others leave.
func (f *Facts) waits(text string) string {
	out := "waits for " + f.wants()
	if len(f.GPUs) > 0 && f.Place.At > 0 {
		out += ", " + f.Place.String()
	}
	beyond := beyondReach(text)
	if beyond > 0 {
		out += fmt.Sprintf("; %s unable to attach its volume (%s), so free GPUs there cannot be used", nodesAre(beyond), strings.Join(f.Claims, ", "))
	}
	if o := f.Offer; o != nil && len(f.GPUs) > 0 && o.Total > 0 && beyond == 0 {
		out += fmt.Sprintf("; of %d that nodes offer it, no node has that many free", o.Total)
	}
	if held := f.Rivals.String(); held != "" {
		out += "; held by " + held
	}
	if said := schedulerSays(text); said != "" {
		out += "; " + said
	}
	return out
}

// beyondReach is how many nodes the scheduler has excluded because a volume cannot be
// had there, as its plugins VolumeBinding and VolumeZone say it.
func beyondReach(text string) int {
	text, _, _ = strings.Cut(text, " preemption: ")
	sum := 0
	for part := range strings.SplitSeq(after(text, "nodes are available: "), ", ") {
		if strings.Contains(part, "PersistentVolume's node affinity") || strings.Contains(part, "volume node affinity conflict") || strings.Contains(part, "no available volume zone") {
			var n int
			if _, err := fmt.Sscan(part, &n); err == nil {
				sum += n
			}
		}
	}
	return sum
}

// schedulerSays is the first sentence of a scheduler's message: what it says of
// preemption after it is the same sentence again.
func schedulerSays(text string) string {
	text, _, _ = strings.Cut(text, " preemption: ")
	text, _, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(strings.TrimSpace(text), ".")
}

// Lacks says why no node will ever do, or "".
func (o *Offer) Lacks() string {
	switch {
	case o == nil:
		return ""
	case o.Offering == 0 && o.Broken > 0:
		return fmt.Sprintf("%s %s, but none is allocatable; check the device plugin (kubectl get pods -A | grep device-plugin)", nodesHave(o.Broken), o.Resource)
	case o.Offering == 0:
		return fmt.Sprintf("no node offers %s (there are %d); ask for what berth nodes lists, or add a node that has it", o.Resource, o.Nodes)
	case len(o.Labels) > 0:
		out := "no node has the label " + o.Labels[0]
		if len(o.Has) > 0 {
			out += "; nodes have " + named(o.Has)
		}
		if o.Near != "" {
			out += "; the nearest is " + o.Near
		}
		return out + "; change nodeSelector, or label a node"
	case o.Allowed == 0 && len(o.Taints) > 0:
		return fmt.Sprintf("the nodes that offer %s have taints that it does not tolerate: %s; add a toleration", o.Resource, strings.Join(o.Taints, ", "))
	case o.Allowed == 0:
		return fmt.Sprintf("no node that offers %s is one that its nodeSelector and affinity allow; change them", o.Resource)
	case o.Enough == 0 && o.Most < o.Asked:
		return fmt.Sprintf("it asks for %d %s, and no node that it may use has more than %d; ask for less", o.Asked, o.Resource, o.Most)
	}
	return ""
}

// mostValues is how many values of a label are named before the rest is counted.
const mostValues = 8

// named writes a list that may be long.
func named(list []string) string {
	if more := len(list) - mostValues; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:mostValues], ", "), more)
	}
	return strings.Join(list, ", ")
}

func nodesAre(n int) string {
	if n == 1 {
		return "1 node is"
	}
	return fmt.Sprint(n, " nodes are")
}

func nodesHave(n int) string {
	if n == 1 {
		return "1 node has"
	}
	return fmt.Sprint(n, " nodes have")
}
