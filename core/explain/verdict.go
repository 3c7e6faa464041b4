package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Verdict is the answer of the one judge of waits: all checks on all nodes for one
// workload at one moment, and what of them binds.
type Verdict struct {
	Nodes  []NodeGaps // by name
	Causes []Cause    // the binding one first; none is that a node has room, or there is no node
	Asks   []Amount   // GPUs that are asked for
	// Offers are the values that nodes have of what the binding cause wants, sorted, and
	// Near the one that is most like it; nil and "" are none.
	Offers []string
	Near   string
	Total  int64 // of the first of Asks, that nodes which would do offer, held or not
	// Free and Most are how many of the first of Asks are free on those nodes, and on one.
	Free, Most int64
	FreeOn     int // nodes that Free is on
	// Detail is the binding cause more exactly than its check; nil is that the check says all.
	Detail *Detail
}

// Binding is the cause that keeps the workload waiting, nil if none is known.
func (v *Verdict) Binding() *Cause {
	if v == nil || len(v.Causes) == 0 {
		return nil
	}
	return &v.Causes[0]
}

// Code is the code of the binding cause, "" if none is known.
func (v *Verdict) Code() Code {
	if c := v.Binding(); c != nil {
		if v.Detail != nil {
			return v.Detail.Code
		}
		if c.Gap.Check == CheckGPUs && c.Waits() && v.Fragmented() {
			return CodeFragmented
		}
		return c.Code()
	}
	return ""
}

// ForGPUs reports whether GPUs that others hold are what the workload waits for.
func (v *Verdict) ForGPUs() bool {
	c := v.Binding()
	return c != nil && c.Waits() && (c.Gap.Check == CheckGPUs || c.Gap.Check == CheckGPUMemory || c.Gap.Check == CheckClique)
}

// Fragmented reports whether enough is free, and not on one node.
func (v *Verdict) Fragmented() bool {
	return len(v.Asks) == 1 && v.Asks[0].Count > 1 && v.Free >= v.Asks[0].Count && v.Most < v.Asks[0].Count
}

// Scattered says that enough is free, and not on one node; "" is that this is not so.
func (v *Verdict) Scattered() string {
	if !v.Fragmented() {
		return ""
	}
	return fmt.Sprintf("%d %s are free for it, but on %d nodes, at most %d on one; a pod's GPUs must be on one node", v.Free, v.Asks[0].Resource, v.FreeOn, v.Most)
}

// Lacks says why no node will ever do, or "".
func (v *Verdict) Lacks() string {
	c := v.Binding()
	if c != nil && c.Gap.Remedy == Never && v.Detail != nil && v.Detail.Text != "" {
		return v.Detail.Text
	}
	if c != nil && c.Code() == CodeNotOffered && len(v.Asks) > 0 {
		have := "1 node has"
		if len(c.Nodes) > 1 {
			have = fmt.Sprint(len(c.Nodes), " nodes have")
		}
		return fmt.Sprintf("%s %s, but none is allocatable; check the device plugin (kubectl get pods -A | grep device-plugin)", have, v.Asks[0].Resource)
	}
	if c == nil || c.Gap.Remedy != Never {
		return ""
	}
	g := &c.Gap
	what := "a pod"
	if len(v.Asks) > 0 {
		what = v.Asks[0].Resource
	}
	switch g.Check { //nolint:exhaustive // the rest is amounts
	case CheckOffered:
		return v.unoffered(g)
	case CheckSelector:
		out := "no node has the label " + g.Subject
		if slices.Contains(v.Offers, after(g.Subject, "=")) {
			out = "no node that offers " + what + " has the label " + g.Subject
		}
		return out + v.have() + "; change nodeSelector, or label a node"
	case CheckAffinity:
		return "no node that offers " + what + " matches its required node affinity: " + g.Subject + v.have() + "; change the affinity, or label a node"
	case CheckSharing:
		return fmt.Sprintf("the nodes that offer %s would have it use GPUs by %s, which queue %s does not allow (spec.sharing); %s", what, g.Subject, g.Has, askOtherwise)
	case CheckTaint:
		return fmt.Sprintf("the nodes that offer %s have taints that it does not tolerate: %s; add a toleration", what, strings.Join(v.taints(), ", "))
	case CheckVolume:
		return fmt.Sprintf("no node that it may use can reach its volume claim %s, whose volume %s; use another claim, or copy its data to a volume created there", g.Subject, g.Has)
	}
	return v.tooLarge(g)
}

// nodeGone says that a pod names a node that does not exist.
func (v *Verdict) nodeGone(name string) string {
	out := "its nodeName is " + name + ", and there is no such node"
	if v != nil {
		out += v.have()
	}
	return out + "; take nodeName out and let a scheduler choose, or name a node that exists"
}

// tooLarge says what no node has enough of.
func (v *Verdict) tooLarge(g *Gap) string {
	who, least := "", "ask for less"
	if g.By != "" {
		who = "its init container " + g.By
	}
	needed, total := g.text(g.Needed)+" "+g.unit(), g.text(g.Total)
	if g.Check == CheckGPUMemory {
		needed = g.text(g.Needed) + " of memory of one GPU"
	}
	return fmt.Sprintf("%s asks for %s, and no node that it may use has more than %s; %s", cmp.Or(who, "it"), needed, total, least)
}

// unoffered says that no node has a resource, and what there is instead.
func (v *Verdict) unoffered(g *Gap) string {
	out := fmt.Sprintf("no node offers %s (there are %d)", g.Subject, len(v.Nodes))
	if len(v.Offers) > 0 {
		out += "; nodes offer " + named(v.Offers)
	}
	if v.Near != "" {
		return out + "; did you mean " + v.Near + "?"
	}
	return out + "; ask for what berth nodes lists, or add a node that has it"
}

// ClaimOnly says which nodes the workload could use, now or when others leave, but that a
// DRA driver alone offers their GPUs; "" is that there are none.
func (v *Verdict) ClaimOnly() string {
	if v == nil {
		return ""
	}
	var first *Gap
	count := 0
	for i := range v.Nodes {
		gaps := v.Nodes[i].Gaps
		if !v.Nodes[i].unoffered() || gaps[0].Driver == "" || slices.ContainsFunc(gaps[1:], func(g Gap) bool { return g.Remedy == Never }) {
			continue
		}
		if count++; first == nil {
			first = &gaps[0]
		}
	}
	if first == nil {
		return ""
	}
	have := "1 node has"
	if count > 1 {
		have = fmt.Sprint(count, " nodes have")
	}
	return fmt.Sprintf("%s GPUs only through DRA (%s), which Berth does not use for %s yet: %s", have, first.Driver, first.Subject, first.Do)
}

// have tells what nodes have instead.
func (v *Verdict) have() string {
	out := ""
	if len(v.Offers) > 0 {
		out = "; nodes have " + named(v.Offers)
	}
	if v.Near != "" {
		out += "; the nearest is " + v.Near
	}
	return out
}

// taints are those that the workload does not tolerate, sorted.
func (v *Verdict) taints() []string {
	var out []string
	for i := range v.Causes {
		if g := &v.Causes[i].Gap; g.Check == CheckTaint {
			out = append(out, g.Subject)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Besides is what a workload waits for that is not its GPUs, "" if those are what it
// waits for or nothing is known.
func (v *Verdict) besides() string {
	c := v.Binding()
	if c == nil || v.ForGPUs() || c.Gap.Remedy == Never {
		return ""
	}
	if v.Detail != nil && v.Detail.Text != "" {
		return v.Detail.Text
	}
	g := &c.Gap
	on := nodesText(c.Nodes)
	switch g.Check { //nolint:exhaustive // the rest is amounts
	case CheckClosed:
		out := fmt.Sprintf("%s would do, but %s", on, g.Subject)
		if len(c.Nodes) == 1 {
			out = fmt.Sprintf("node %s would do, but it is %s", on, g.Subject)
		}
		if do := withNodes(g.Do, c.Nodes); do != "" {
			out += " (" + do + ")"
		}
		return out
	case CheckGPUs:
		return fmt.Sprintf("node %s %s", c.Nodes[0], g.String())
	case CheckPods:
		return "every pod that " + on + " may have is there"
	case CheckPort, CheckPodAffinity, CheckAntiAffinity, CheckSpread, CheckTaint:
		text := g.String()
		if has, ok := strings.CutPrefix(text, "has "); ok && len(c.Nodes) > 1 {
			text = "have " + has
		}
		return on + " " + text
	}
	who := ""
	if g.By != "" {
		who = " for its init container " + g.By
	}
	return fmt.Sprintf("it needs %s %s%s on one node, and at most %s of %s are free (on %s)", g.text(g.Needed), g.unit(), who, g.text(g.Free), g.text(g.Total), on)
}

// beyond is how many nodes would do or might, and do not reach a volume.
func (v *Verdict) beyond() int {
	if v == nil {
		return 0
	}
	count := 0
	for i := range v.Nodes {
		if gaps := v.Nodes[i].Gaps; len(gaps) > 0 && gaps[0].Check == CheckVolume {
			count++
		}
	}
	return count
}

// Others are the causes after the binding one, each in a few words with its nodes.
func (v *Verdict) Others() []string {
	var out []string
	for i := 1; i < len(v.Causes); i++ {
		c := &v.Causes[i]
		out = append(out, fmt.Sprintf("%s: %s [%s]", nodesText(c.Nodes), c.Gap.String(), c.Code()))
	}
	return out
}

// reason is the reason of condition Ready where no wait helps.
func (v *Verdict) reason() Reason {
	switch v.Binding().Gap.Check { //nolint:exhaustive // the rest is not about GPUs
	case CheckOffered:
		if len(v.Asks) > 0 || v.Near != "" { // as nvidia.com/gpus is meant to be GPUs
			return NoSuchGPU
		}
	case CheckClosed, CheckSelector, CheckAffinity, CheckSharing, CheckTaint, CheckGPUs, CheckGPUMemory, CheckClique:
		if len(v.Asks) > 0 {
			return NoSuchGPU
		}
	}
	return NoSuchNode
}

// nodesText names nodes, the first few.
func nodesText(nodes []string) string {
	if more := len(nodes) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(nodes[:mostNamed], ", "), more)
	}
	return strings.Join(nodes, ", ")
}

// withNodes puts the names of nodes in the place of NODE.
func withNodes(do string, nodes []string) string {
	return strings.ReplaceAll(do, "NODE", strings.Join(nodes[:min(len(nodes), mostNamed)], " "))
}
