package allocation

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube"
)

// choose holds for a pod without a commitment what its tokens stand for, or
// another device of the resource where that is not to be had. Devices that are
// committed to pods that have not started are not to be had. Containers that
// have the same token, one after the other, get the same device.
func (n *Node) choose(uid string, parts []sharing.Part, a *asker) ([][]sharing.Device, error) {
	for _, owner := range n.reserve(uid, a.others) {
		defer n.ledger.Release(owner)
	}
	of, lacking := n.own(uid, parts, a.all)
	for _, e := range lacking {
		missing := slices.DeleteFunc(e.Tokens, func(token string) bool { _, done := of[e.Resource+" "+token]; return done })
		got, err := n.ledger.Take(uid, e.Resource, len(missing))
		if err != nil {
			return nil, n.noneLeft(&e, a.pod, err)
		}
		for i, token := range missing {
			if got[i].MemoryBytes < leastBytes(parts, e.Container) {
				return nil, refuse(ReasonTaken, "container %s of pod %s/%s asks for GPUs with more memory than any that is free has", e.Container, a.pod.Namespace, a.pod.Name)
			}
			of[e.Resource+" "+token] = got[i]
		}
	}
	out := make([][]sharing.Device, len(parts))
	for i := range parts {
		for _, e := range a.all {
			for _, token := range e.Tokens {
				if d, ok := of[e.Resource+" "+token]; ok && e.Container == parts[i].Name {
					out[i] = append(out[i], d)
				}
			}
		}
	}
	return out, nil
}

// own holds what the tokens of a pod stand for, and gives it by resource and
// token. lacking has the entries with those of their tokens whose device is not
// to be had.
func (n *Node) own(uid string, parts []sharing.Part, entries []entry) (of map[string]sharing.Device, lacking []entry) {
	of = map[string]sharing.Device{}
	for _, e := range entries {
		if e.Nonce == "" || e.Resource == sharing.ResourceMemory {
			continue // memory beside whole GPUs: only says how large these are
		}
		least := leastBytes(parts, e.Container)
		rest := e
		rest.Tokens = nil
		for _, token := range e.Tokens {
			key := e.Resource + " " + token
			t, ok := n.tokens.Of(e.Resource, token)
			_, done := of[key]
			switch {
			case done:
			case ok && !t.Gone && t.Device.Healthy && t.Device.MemoryBytes >= least && n.free(uid, t.Device.ID):
				of[key] = t.Device
			default:
				rest.Tokens = append(rest.Tokens, token)
			}
		}
		lacking = append(lacking, rest)
	}
	return of, lacking
}

// free holds a device for a pod if nobody has it.
func (n *Node) free(uid, id string) bool {
	return n.ledger.Free(id) == nil && n.ledger.Restore(uid, []string{id}) == nil
}

// noneLeft says that the kubelet has given out a device that is not to be had.
func (n *Node) noneLeft(e *entry, pod *v1.Pod, err error) error {
	reason := ReasonTaken
	if sharing.Allocatable(n.ledger.Devices())[e.Resource] == 0 {
		reason = ReasonUnhealthy
	}
	return refuse(reason, "container %s of pod %s/%s cannot have its devices of %s, the others are held or committed: %w; it starts by itself once they are free",
		e.Container, pod.Namespace, pod.Name, e.Resource, err)
}

// leastBytes is the memory that each GPU of a container has at least.
func leastBytes(parts []sharing.Part, container string) int64 {
	var least int64
	for i := range parts {
		for _, a := range parts[i].Asks {
			if parts[i].Name == container {
				least = max(least, a.LeastGiB*sharing.GiB)
			}
		}
	}
	return least
}

// reserve holds, for the time of a choice, what is committed to pods that are
// bound to the node and have not started yet. It returns the owners to release.
func (n *Node) reserve(uid string, pods []*v1.Pod) []string {
	var owners []string
	for _, pod := range pods {
		other := kube.HolderID(pod)
		if other == uid || n.records[other] != nil || ended(pod) {
			continue
		}
		named, err := kube.Committed(pod)
		if err != nil || named == nil {
			continue
		}
		owner := "reserved for " + other
		if _, err := n.ledger.Commit(owner, kube.Parts(pod), named); err != nil {
			n.reserveFree(owner, named)
		}
		owners = append(owners, owner)
	}
	return owners
}

// reserveFree holds those devices of a commitment that are free, where not all of
// them are: of a shared device a share, of one that is committed by size all of it.
func (n *Node) reserveFree(owner string, named map[string][]sharing.Named) {
	for _, list := range named {
		for _, want := range list {
			for _, d := range n.ledger.Devices() {
				if d.UUID == want.UUID && n.free(owner, d.ID) {
					break
				}
			}
		}
	}
}
