package queue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/request"
)

// stranger is a queue that pods of another name.
type stranger struct{ queue, by string }

// strangers says which queues the pods of a queue name that they do not enter, by name.
func (s *state) strangers(name string) (out []string) {
	pods := map[stranger]int{}
	for _, pod := range s.pods {
		if !request.AsksForGPUs(pod) || request.Ended(pod) {
			continue
		}
		if m := s.count.QueueOf(pod); m.Queue == name && m.Ignored != "" {
			pods[stranger{m.Named, m.By}]++
		}
	}
	for _, of := range slices.SortedFunc(maps.Keys(pods), func(a, b stranger) int {
		return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.by, b.by))
	}) {
		why := "a queue that does not exist"
		if _, there := s.tree.Spec(of.queue); there {
			why = "a queue that does not take labeled pods of their namespace"
		}
		out = append(out, fmt.Sprintf("%s here with %s: %s, %s", term.Count(pods[of], "pod"), of.by, of.queue, why))
	}
	return out
}
