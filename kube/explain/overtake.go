package explain

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// mostOvertakers is how many pods are named that have overtaken another.
const mostOvertakers = 3

// Overtaken says which pods came after one that waits, and started before it on a
// node that it could use, because they ask for less; "" is none.
func Overtaken(pod *v1.Pod, pods []*v1.Pod, nodes []*v1.Node) string {
	reach := ReachOf(pod, nodes)
	want := AmountsOf(pod)
	if reach == nil || len(want) == 0 || !request.InLine(pod) {
		return ""
	}
	tickets := request.Tickets(pods)
	ask := func(p *v1.Pod) queue.Ask {
		first := AmountsOf(p)[0]
		return queue.Ask{Ticket: tickets(p), Name: p.Namespace + "/" + p.Name, Resource: first.Resource, Count: first.Count, Node: p.Spec.NodeName, Started: request.Since(p)}
	}
	me := ask(pod)
	var started []queue.Ask
	for _, p := range pods {
		if p.Spec.NodeName == "" || p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded || len(request.Of(p)) == 0 {
			continue
		}
		if s := ask(p); s.Resource == me.Resource || !strings.HasPrefix(s.Resource, api.ResourceMIGPrefix) && !strings.HasPrefix(me.Resource, api.ResourceMIGPrefix) {
			started = append(started, s)
		}
	}
	var texts []string
	over := queue.Overtakers(&me, reach, started)
	for _, s := range over[:min(len(over), mostOvertakers)] {
		texts = append(texts, fmt.Sprintf("%s (%d %s on %s)", s.Name, s.Count, s.Resource, s.Node))
	}
	if len(over) == 0 {
		return ""
	}
	if more := len(over) - mostOvertakers; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("created later and started first, because smaller requests fit where this one (%d %s) does not: %s",
		me.Count, me.Resource, strings.Join(texts, ", "))
}
