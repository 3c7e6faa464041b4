package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/core/queue"
)

// Unhandled is after which time a pod that no scheduler has looked at is said to have
// a schedulerName that nothing serves.
const Unhandled = 10 * time.Second

// Claim is a PersistentVolumeClaim that keeps a pod from every node.
type Claim struct {
	Name    string
	Missing bool
	Class   string   // the StorageClass that it names and that does not exist; "" is none
	Classes []string // the StorageClasses that there are, sorted
	// Of is the StorageClass that could not provide it, Modes the access modes that it wants,
	// and Said what the provisioner reported last; Said "" is nothing.
	Of, Modes, Said string
}

// refused says that a provisioner makes no volume for the claim.
func (c *Claim) refused() string {
	text := strings.ToLower(c.Said)
	for _, mark := range []string{"access mode", "accessmode", "access_mode", "multi-node", "multi_node", "multi node", "readwritemany", "readonlymany", "multiple nodes"} {
		if strings.Contains(text, mark) {
			return fmt.Sprintf("volume claim %s has no volume: storage class %s does not provide %s (%s); use a class that does, or another access mode", c.Name, c.Of, c.Modes, c.Said)
		}
	}
	return fmt.Sprintf("volume claim %s has no volume: storage class %s could not provide it: %s", c.Name, c.Of, c.Said)
}

// claims names all claims that keep the pod from every node, "" if none is known.
func (f *Facts) claims() string {
	var missing, classless []string
	var of *Claim
	for i := range f.BadClaims {
		c := &f.BadClaims[i]
		if c.Missing {
			missing = append(missing, c.Name)
		} else if c.Class != "" {
			classless = append(classless, c.Name)
			of = c
		}
	}
	var out []string
	switch {
	case len(missing) == 1:
		out = append(out, fmt.Sprintf("volume claim %s does not exist in namespace %s; create it", missing[0], f.Namespace))
	case len(missing) > 1:
		out = append(out, fmt.Sprintf("volume claims %s do not exist in namespace %s; create them", together(missing), f.Namespace))
	}
	if of != nil {
		have := "there is none"
		if len(of.Classes) > 0 {
			have = "there are " + named(of.Classes)
		}
		out = append(out, fmt.Sprintf("volume claim %s wants storage class %s, which does not exist (%s); name one that exists in a new claim, or create the class",
			strings.Join(classless, ", "), of.Class, have))
	}
	for i := range f.BadClaims {
		if c := &f.BadClaims[i]; c.Said != "" {
			out = append(out, c.refused())
		}
	}
	return strings.Join(out, "; ")
}

// Unhandled reports whether no scheduler looks at the pod.
func (f *Facts) Unhandled() bool {
	return f.Pod != nil && len(f.NoClaims) == 0 && f.Pod.Node == "" && f.Pod.condition(ConditionScheduled) == nil && f.unhandled() != ""
}

// unhandled says that no scheduler looks at the pod, "" if one does or may yet.
func (f *Facts) unhandled() string {
	if f.Scheduler == "" || f.Waited < Unhandled || slices.Contains(f.Schedulers, f.Scheduler) {
		return ""
	}
	out := fmt.Sprintf("no scheduler called %s has looked at it since it was made", f.Scheduler)
	if len(f.Schedulers) > 0 {
		return out + "; pods here are placed by " + named(f.Schedulers) + ": set schedulerName to one of them, or start that scheduler"
	}
	return out + "; set schedulerName to one that runs, such as default-scheduler, or start that one"
}

// gated names the scheduling gates of the pod.
func (f *Facts) gated(text string) string {
	if len(f.Gates) == 0 {
		return "blocked by scheduling gates, which their owner must remove: " + text
	}
	what := "scheduling gate "
	if len(f.Gates) > 1 {
		what = "scheduling gates "
	}
	return "blocked by " + what + strings.Join(f.Gates, ", ") + ", which the controller that set it must remove; to remove it by hand: kubectl edit pod " + f.Pod.Name + " -n " + f.Namespace
}

// config says which Secret or ConfigMap keeps a container from being made, "" if none does.
func (f *Facts) config(message string) string {
	for kind, is := range map[string]string{"secret": "Secret", "configmap": "ConfigMap"} {
		if name := quoted(message, kind+` "`); name != "" && strings.Contains(message, "not found") {
			return fmt.Sprintf("%s %s does not exist in namespace %s; create it", is, name, f.Namespace)
		}
	}
	return ""
}

// Group is what a gang needs as a whole.
type Group struct {
	Name     string
	Members  int // that must have a place before any gets one; 0 is not known
	Placed   int // of the members that there are, have a node
	Waiting  int // of the members that there are, have no node
	Resource string
	Needed   int64 // of Resource, by those that have none
	Free     int64 // on all nodes that a member could use
	Total    int64 // the same, held or not
	Fit      int   // of Waiting, would find a place now together
}

// text says what the gang lacks as a whole.
func (g *Group) text() string {
	if g == nil || g.Needed == 0 || g.Fit == g.Waiting && g.Needed <= g.Free {
		return ""
	}
	if g.Needed > g.Total {
		return fmt.Sprintf("its gang %s asks for %d %s in all, and the nodes that it may use have %d, held or not; ask for less, or add nodes", g.Name, g.Needed, g.Resource, g.Total)
	}
	return fmt.Sprintf("its gang %s starts together: it asks for %d %s in all, %d are free, and %d of its %d pods would find a place now", g.Name, g.Needed, g.Resource, g.Free, g.Fit, g.Waiting)
}

// grouped says what the gang of the pod lacks as a whole, where it is not something else
// that keeps the pod itself off nodes.
func (f *Facts) grouped() string {
	if b := f.Verdict.Binding(); b != nil && !f.Verdict.ForGPUs() {
		return ""
	}
	return f.Group.text()
}

// waitsFor is what the scheduler says that the pod waits for.
func (f *Facts) waitsFor() queue.Wait {
	c := f.Pod.condition(ConditionScheduled)
	if c == nil {
		return queue.Unknown
	}
	_, wait := queue.Marked(c.Message)
	return wait
}

// Code is the stable name of why a workload is not ready, as Judge has said of the same
// facts; "" is that it is ready or starts.
func (f *Facts) Code(r *Result) Code {
	if d := f.diagnosed(r.Reason); d.code != "" {
		return d.code
	}
	switch r.Reason {
	case Queued, NoSuchGPU, NoSuchNode:
		switch p := f.Pod; {
		case p != nil && f.NodeGone:
			return CodeNodeName
		case p == nil || p.Node != "":
		case f.Unhandled():
			return CodeScheduler
		case f.grouped() != "" || f.waitsFor() == queue.Gang:
			return CodeGang
		case len(f.Gates) > 0:
			return CodeGate
		}
		return f.Verdict.Code()
	case Quota:
		return CodeQuota
	case Invalid:
		return CodeInvalid
	case Refused:
		return CodeRefused
	case Stopped:
		return CodeStopped
	case MissingServiceAccount, MissingPriorityClass:
		return CodeReference
	case MissingVolume:
		return CodeClaim
	case VolumeInUse:
		return CodeVolumeZone
	case Pulling:
		return CodePulling
	case ImageTrouble:
		return CodeImage
	case MissingConfig:
		return CodeConfig
	case Crashing:
		return CodeCrash
	case Ready, Starting, Restarting, Terminating:
	}
	return ""
}
