package ledger

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/allocation/checkpoint"
	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// choose holds, for a pod without a commitment, the devices that its IDs stand
// for, or another device of the resource where one is not free. Devices that are
// committed to pods that have not started are not free. Containers that have the
// same ID, one after the other, get the same device.
func (l *Ledger) choose(uid string, parts []sharing.Part, q *Request) ([][]sharing.Device, error) {
	for _, owner := range l.reservePending(uid, q.Others) {
		defer l.devices.Release(owner)
	}
	of, lacking := l.holdChosen(uid, parts, q.All)
	for _, e := range lacking {
		missing := slices.DeleteFunc(e.DeviceIDs, func(id string) bool { _, done := of[idKey(e.Resource, id)]; return done })
		got, err := l.devices.Take(uid, e.Resource, len(missing))
		if err != nil {
			return nil, l.refuseNoneFree(&e, q.Pod, err)
		}
		for i, id := range missing {
			if got[i].MemoryBytes < leastBytes(parts, e.Container) {
				return nil, notice.Refuse(notice.ReasonTaken, "container %s of pod %s/%s requests GPUs with more memory than any free GPU has", e.Container, q.Pod.Namespace, q.Pod.Name)
			}
			of[idKey(e.Resource, id)] = got[i]
		}
	}
	out := make([][]sharing.Device, len(parts))
	for i := range parts {
		for _, e := range q.All {
			for _, id := range e.DeviceIDs {
				if d, ok := of[idKey(e.Resource, id)]; ok && e.Container == parts[i].Name {
					out[i] = append(out[i], d)
				}
			}
		}
	}
	return out, nil
}

// holdChosen holds the devices that a pod's IDs stand for, and returns them by
// idKey. lacking has each entry with only those of its IDs whose device is not
// free.
func (l *Ledger) holdChosen(uid string, parts []sharing.Part, entries []checkpoint.Entry) (of map[string]sharing.Device, lacking []checkpoint.Entry) {
	of = map[string]sharing.Device{}
	for _, e := range entries {
		if e.Nonce == "" || e.Resource == sharing.ResourceMemory {
			continue // memory next to whole GPUs only says how large these must be
		}
		least := leastBytes(parts, e.Container)
		rest := e
		rest.DeviceIDs = nil
		for _, id := range e.DeviceIDs {
			key := idKey(e.Resource, id)
			t, ok := l.placeholders.Of(e.Resource, id)
			_, done := of[key]
			switch {
			case done:
			case ok && !t.Gone && t.Device.Healthy && t.Device.MemoryBytes >= least && l.holdIfFree(uid, t.Device.ID):
				of[key] = t.Device
			default:
				rest.DeviceIDs = append(rest.DeviceIDs, id)
			}
		}
		lacking = append(lacking, rest)
	}
	return of, lacking
}

// holdIfFree holds a device for a pod, and reports whether it was free.
func (l *Ledger) holdIfFree(uid, id string) bool {
	return l.devices.Free(id) == nil && l.devices.Restore(uid, []string{id}) == nil
}

// refuseNoneFree refuses an entry for which the kubelet allocated a device that is
// not free, and neither is another one.
func (l *Ledger) refuseNoneFree(e *checkpoint.Entry, pod *v1.Pod, err error) error {
	reason := notice.ReasonTaken
	if sharing.Allocatable(l.devices.Devices())[e.Resource] == 0 {
		reason = notice.ReasonUnhealthy
	}
	return notice.Refuse(reason, "container %s of pod %s/%s cannot get its devices of %s; all others are allocated or committed: %w; it starts automatically once they are free",
		e.Container, pod.Namespace, pod.Name, e.Resource, err)
}

// leastBytes returns the memory that each GPU of a container must have.
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

// reservePending holds, while another pod's devices are chosen, what is committed
// to pods of the node that have not started yet. It returns the owners to release.
func (l *Ledger) reservePending(uid string, pods []*v1.Pod) []string {
	var owners []string
	for _, pod := range pods {
		other := devices.HolderID(pod)
		if other == uid || l.records[other] != nil || request.Ended(pod) {
			continue
		}
		committed, err := commit.Committed(pod)
		if err != nil || committed == nil {
			continue
		}
		owner := "reserved for " + other
		if _, err := l.devices.Commit(owner, request.Parts(pod), committed); err != nil {
			l.reserveFree(owner, committed)
		}
		owners = append(owners, owner)
	}
	return owners
}

// reserveFree holds those devices of a commitment that are free, if not all of them
// are: of a shared device one share, of one that is committed by size all of it.
func (l *Ledger) reserveFree(owner string, committed map[string][]sharing.Named) {
	for _, list := range committed {
		for _, want := range list {
			for _, d := range l.devices.Devices() {
				if d.UUID == want.UUID && l.holdIfFree(owner, d.ID) {
					break
				}
			}
		}
	}
}
