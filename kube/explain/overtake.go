package explain

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// Overtaken finds which pods were created after one that waits, and started before it on a
// node that it could use, because they ask for less. owners finds the training jobs of pods, as request.Tickets has it.
func Overtaken(pod *v1.Pod, pods []*v1.Pod, nodes []*v1.Node, owners request.Owners) reasons.Overtaken {
	return overtaken(pod, newLineup(pods, nodes, owners))
}

// overtaken is Overtaken with pods that were read before.
func overtaken(pod *v1.Pod, line *lineup) reasons.Overtaken {
	reach := ReachOf(pod, line.nodes)
	want := AmountsOf(pod)
	if reach == nil || len(want) == 0 || !request.InLine(pod) {
		return reasons.Overtaken{}
	}
	ask := func(p *v1.Pod) queue.Ask {
		first := AmountsOf(p)[0]
		return queue.Ask{Ticket: line.ticket(p), Name: p.Namespace + "/" + p.Name, Resource: first.Resource, Count: first.Count, Node: p.Spec.NodeName, Started: request.Since(p)}
	}
	me := ask(pod)
	var started []queue.Ask
	for _, p := range line.pods {
		if p.Spec.NodeName == "" || request.Ended(p) || len(request.Of(p)) == 0 {
			continue
		}
		if s := ask(p); s.Resource == me.Resource || !strings.HasPrefix(s.Resource, api.ResourceMIGPrefix) && !strings.HasPrefix(me.Resource, api.ResourceMIGPrefix) {
			started = append(started, s)
		}
	}
	return reasons.Overtaken{Asks: want[0], By: queue.Overtakers(&me, reach, started)}
}
