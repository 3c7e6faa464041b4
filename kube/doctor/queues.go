package doctor

import (
	"fmt"
	"maps"
	"slices"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// queues finds Queues that cannot be followed, and namespaces whose pods with GPUs no Queue takes.
// A cluster without Queues has no finding.
func (e *examined) queues() []finding.Finding {
	const name = "queues"
	if len(e.Queues) == 0 {
		return nil
	}
	counted := queues.Read(&queues.Situation{Queues: e.Queues, Namespaces: e.Namespaces, Nodes: e.Nodes, Pods: e.Pods})
	var out []finding.Finding
	for _, p := range counted.Problems {
		out = append(out, warn(name, fmt.Sprintf("queue %s: %s: %s", p.Queue, p.Field, p.Text), "`kubectl edit queue "+p.Queue+"`; `berth queue check -f FILE` tells what a change does"))
	}
	outside := map[string]bool{}
	for _, p := range e.Pods {
		if request.Of(p) != nil && !request.Ended(p) && counted.QueueOf(p).Queue == "" {
			outside[p.Namespace] = true
		}
	}
	if n := len(outside); n > 0 {
		out = append(out, warn(name, fmt.Sprintf("%s with pods that request GPUs %s in no queue, and no quota counts them: %s", count(n, "namespace"), verb(n, "is", "are"), few(slices.Sorted(maps.Keys(outside)))),
			"list them in spec.namespaces of a Queue, or set spec.default of one"))
	}
	if len(out) == 0 {
		out = append(out, ok(name, "%s %s the pods that request GPUs, in every namespace", count(len(e.Queues), "Queue"), verb(len(e.Queues), "takes", "take")))
	}
	return out
}
