package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/core/queue"
)

// Rivals are the workloads that hold what one waits for. Those of other namespaces
// are counted, and not named.
type Rivals struct {
	Here      string // those of its namespace, as text: "a (2) and b (1)"; "" is none
	Elsewhere int64  // devices that those of other namespaces hold
	Are       string // what they are, as "notebooks"; "" is "workloads"
}

// String names the workloads of the namespace, and counts what those of others hold.
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
	if len(f.NoClaims) > 0 { // of which a scheduler says nothing
		d := f.claimed("")
		return d.reason, d.text
	}
	if c == nil || c.Status != False {
		if why := f.unhandled(); why != "" && c == nil {
			return Queued, why
		}
		if f.Place.At > 0 {
			return Queued, "waits for " + f.wants() + ", " + f.Place.String()
		}
		return Starting, placing
	}
	text, wait := queue.Marked(c.Message)
	said := f.schedulerAdds(text, wait)
	if d := f.heldBack(); d.text != "" {
		return d.reason, d.text
	}
	switch {
	case c.Reason == "SchedulingGated" && wait == queue.Unknown:
		return Queued, f.gated(text)
	case f.claims() != "":
		return MissingVolume, f.claims()
	case strings.Contains(text, `persistentvolumeclaim "`) && strings.Contains(text, "not found"):
		name := quoted(text, `persistentvolumeclaim "`)
		return MissingVolume, fmt.Sprintf("volume claim %s does not exist in namespace %s; create it", name, f.Namespace)
	case strings.Contains(text, `persistentvolumeclaim "`) && strings.Contains(text, "is being deleted"):
		return MissingVolume, "volume claim " + quoted(text, `persistentvolumeclaim "`) + " is being deleted; create it again when it is gone"
	case strings.Contains(text, "unbound immediate PersistentVolumeClaims"):
		return MissingVolume, fmt.Sprintf("its volume claim (%s) has no volume yet; kubectl describe pvc -n %s says why",
			strings.Join(f.Claims, ", "), f.Namespace)
	case f.Pod.ExcludedFromVolume():
		used := f.InUse
		if used == "" {
			used = "its volume (" + strings.Join(f.Claims, ", ") + ") is used by another pod"
		}
		return VolumeInUse, used + ", and only one pod may use it at a time (ReadWriteOncePod); stop that one, or use another claim"
	case wait == queue.Volume && !stock(text):
		return MissingVolume, schedulerSays(text) // as this rule has said it before
	}
	if why := f.Verdict.Lacks(); why != "" {
		if claims := f.Verdict.ClaimOnly(); why != claims {
			why = joined(why, claims)
		}
		return f.Verdict.reason(), why
	}
	if why := f.grouped(); why != "" {
		return Queued, joined("waits for "+f.wants(), why, said)
	}
	return Queued, f.waits(text, said)
}

// stock reports whether a message is in kube-scheduler's own words.
func stock(text string) bool { return strings.Contains(text, " nodes are available: ") }

// schedulerAdds is what of a scheduler's message is not known from the nodes, "" if
// nothing is.
func (f *Facts) schedulerAdds(text string, wait queue.Wait) string {
	known := f.Verdict.Binding() != nil || f.grouped() != ""
	switch {
	case wait == queue.Preemption && known:
		_, preemption, _ := strings.Cut(text, " preemption: ")
		return strings.TrimSuffix(preemption, ".")
	case known && (wait.NodeHelps() || wait == queue.NoSuchNode):
		return ""
	}
	return schedulerSays(text)
}

// joined joins the parts of a sentence that are not empty.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
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

// waits says what a pod waits for that will fit when others leave: the cause, then its
// place in line and who holds what.
func (f *Facts) waits(text, said string) string {
	first := "waits for " + f.wants()
	if after, repeated := strings.CutPrefix(said, first); repeated && f.Verdict.Binding() == nil { // a sentence of Berth's scheduler
		said = strings.TrimPrefix(after, "; ")
	}
	parts := []string{first}
	beyond := max(beyondReach(text), f.Verdict.beyond())
	if beyond > 0 {
		parts = append(parts, fmt.Sprintf("%s unable to attach its volume (%s), so free GPUs there cannot be used", nodesAre(beyond), strings.Join(f.Claims, ", ")))
	}
	parts = append(parts, f.held(beyond))
	if v := f.Verdict; v.ForGPUs() && v.Detail != nil && v.Detail.Text != "" {
		parts = append(parts, v.Detail.Text)
	}
	parts = append(parts, f.Verdict.ClaimOnly())
	besides := f.Verdict.besides()
	parts = append(parts, besides)
	if len(f.GPUs) > 0 && f.Place.At > 0 {
		parts = append(parts, f.Place.String())
	}
	if held := f.Rivals.String(); held != "" && besides == "" && !f.Brief {
		parts = append(parts, "held by "+held)
	}
	return joined(append(parts, said)...)
}

// held says that others hold the GPUs, "" if those are not what it waits for.
func (f *Facts) held(beyond int) string {
	v := f.Verdict
	switch {
	case !v.ForGPUs() || len(f.GPUs) == 0 || beyond > 0:
		return ""
	case v.Total > 0:
		return fmt.Sprintf("of %d that nodes offer it, no node has that many free", v.Total)
	}
	return "node " + v.Causes[0].Nodes[0] + ": " + v.Causes[0].Gap.String() // a resource that nodes do not list, as a part of a GPU
}

// beyondReach is how many nodes the scheduler has excluded because a volume cannot be
// had there, as its plugins VolumeBinding and VolumeZone say it, or Berth's scheduler.
func beyondReach(text string) int {
	text, _, _ = strings.Cut(text, " preemption: ")
	sum := 0
	for part := range strings.SplitSeq(text, "; ") {
		if strings.Contains(part, " unable to attach its volume ") {
			if _, err := fmt.Sscan(part, &sum); err == nil {
				return sum
			}
		}
	}
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
	text = strings.TrimSpace(text)
	for _, of := range []string{"no new claims to deallocate,", "still not schedulable,"} { // of DynamicResources, before preemption
		if rest, found := strings.CutSuffix(text, of); found {
			text = strings.TrimRight(rest, " ,")
		}
	}
	return strings.TrimSuffix(text, ".")
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
