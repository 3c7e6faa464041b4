package allocation

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube"
)

// give holds what a pod gets, if it does not yet, and writes the CDI specs of the
// containers that start. On an error nothing has changed.
func (n *Node) give(a *asker) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ledger == nil {
		return refuse(ReasonDriver, "the node's GPUs are not known yet; the container starts by itself once they are")
	}
	uid := a.mine[0].PodUID
	before := n.records[uid]
	r, err := n.recordFor(a, before)
	if err != nil {
		return err
	}
	if err := n.start(a, r, before == nil); err != nil {
		if before == nil {
			n.ledger.Release(uid)
		}
		return err
	}
	if before == nil {
		n.pick(r)
	} else {
		n.replaced(before, r)
	}
	n.records[uid] = r
	n.holdTokens(r)
	n.tell()
	return nil
}

// recordFor is what a pod holds from now on, and that is held in the ledger.
func (n *Node) recordFor(a *asker, before *record) (*record, error) {
	if before == nil {
		return n.settle(a)
	}
	r := before.clone()
	moved := r.take(a.all)
	switch {
	case r.Committed && !n.keeps(r, a):
		return nil, refuse(ReasonMalformed, "the devices committed in %s to pod %s/%s are others than those that it was given when it first started%s",
			api.AnnotationDevices, r.Namespace, r.Pod, again)
	case !r.Committed && moved:
		// The kubelet has chosen anew. What it left as it was stays as it was.
		n.ledger.Release(r.PodUID)
		settled, err := n.settle(a)
		if err != nil {
			n.recountAll()
		}
		return settled, err
	}
	return r, nil
}

// keeps tells whether a commitment is still what the pod was given.
func (n *Node) keeps(r *record, a *asker) bool {
	for i := range r.Containers {
		c := &r.Containers[i]
		same := slices.EqualFunc(c.Devices, a.named[c.Name], func(d device, w sharing.Named) bool {
			return d.UUID == w.UUID && d.MilliGPU == w.MilliGPU && d.MemoryBytes == w.MemoryBytes
		})
		if !same {
			return false
		}
	}
	return true
}

// start writes the CDI specs of the containers that start. fresh says that the
// pod has none yet; then an error leaves none.
func (n *Node) start(a *asker, r *record, fresh bool) error {
	var written []string
	err := n.startEach(a, r, &written)
	if err != nil && fresh {
		for _, nonce := range written {
			_ = n.files.remove(nonce) // the error before is the one to tell
		}
	}
	return err
}

func (n *Node) startEach(a *asker, r *record, written *[]string) error {
	for _, e := range a.mine {
		c := r.container(e.Container)
		for i := range c.Devices {
			if d := &c.Devices[i]; !n.well(d) && !n.drained[d.UUID] {
				return refuse(ReasonUnhealthy, "device %s of container %s of pod %s/%s is unhealthy: the container starts by itself once it is well%s",
					d.UUID, e.Container, r.Namespace, r.Pod, again)
			}
		}
		spec, err := n.spec(r, c, e, a.driver)
		if err != nil {
			return err
		}
		if err := n.files.write(e.Nonce, spec); err != nil {
			return &refusal{reason: ReasonWrite, text: fmt.Sprintf("berth: container %s of pod %s/%s: %v", e.Container, r.Namespace, r.Pod, err), err: err}
		}
		*written = append(*written, e.Nonce)
	}
	return nil
}

// pick notes what the kubelet's choice stands for, before the tokens of a pod
// come to stand for what it was given, and counts where these differ.
func (n *Node) pick(r *record) {
	for i := range r.Containers {
		c := &r.Containers[i]
		for _, e := range c.Entries {
			if e.Resource == sharing.ResourceMemory {
				continue // its tokens stand for no particular GPU
			}
			var picked []string
			for _, name := range e.Tokens {
				if t, ok := n.tokens.Of(e.Resource, name); ok && !t.Gone {
					picked = append(picked, t.Device.UUID)
				}
			}
			c.Picked = append(c.Picked, picked...)
			var got []string
			for _, d := range c.Devices {
				if d.Resource == e.Resource {
					got = append(got, d.UUID)
				}
			}
			slices.Sort(got)
			slices.Sort(picked)
			if r.Committed && len(got) > 0 && !slices.Equal(got, picked) {
				n.differences++
			}
		}
	}
}

// replaced gives back what a record has had and has not any more: tokens, and
// CDI specs that the kubelet does not name any more.
func (n *Node) replaced(before, now *record) {
	for i := range before.Containers {
		for _, old := range before.Containers[i].Entries {
			stays := false
			var kept []string
			for j := range now.Containers {
				for _, e := range now.Containers[j].Entries {
					stays = stays || e.Nonce == old.Nonce
					if e.Resource == old.Resource {
						kept = append(kept, e.Tokens...)
					}
				}
			}
			n.tokens.Release(old.Resource, slices.DeleteFunc(slices.Clone(old.Tokens), func(t string) bool { return slices.Contains(kept, t) }))
			if stays || old.Nonce == "" {
				continue
			}
			if err := n.files.remove(old.Nonce); err != nil {
				n.log.Warn("a CDI spec that is not in use any more stays", "error", err)
			}
		}
	}
}

// settle decides what a pod gets and holds it in the ledger, or holds nothing
// and says why.
func (n *Node) settle(a *asker) (*record, error) {
	r := &record{PodUID: a.mine[0].PodUID, Namespace: a.pod.Namespace, Pod: a.pod.Name, Committed: a.named != nil}
	parts := kube.Parts(a.pod)
	var devices [][]sharing.Device
	var err error
	if r.Committed {
		devices, err = n.commit(r.PodUID, parts, a.named)
	} else {
		devices, err = n.choose(r.PodUID, parts, a)
	}
	if err != nil {
		n.ledger.Release(r.PodUID)
		return nil, err
	}
	for i := range parts {
		r.Containers = append(r.Containers, container{Name: parts[i].Name, Devices: n.keep(devices[i])})
	}
	r.take(a.all)
	return r, nil
}

// commit holds the devices that the scheduler has committed to a pod.
func (n *Node) commit(uid string, parts []sharing.Part, named map[string][]sharing.Named) ([][]sharing.Device, error) {
	got, err := n.ledger.Commit(uid, parts, named)
	if err != nil {
		return nil, refuse(reasonOf(err), "the devices committed in %s cannot be given: %w%s", api.AnnotationDevices, n.named(err), again)
	}
	for i := range parts {
		for j, d := range got[i] {
			want := named[parts[i].Name][j]
			switch {
			case !d.Healthy && !(n.drained[d.UUID] && n.welcome[uid]):
				return nil, refuse(ReasonUnhealthy, "device %s, committed in %s, is unhealthy: the container starts by itself once it is well%s",
					d.UUID, api.AnnotationDevices, again)
			case d.MilliGPU != want.MilliGPU || d.MemoryBytes != want.MemoryBytes:
				return nil, refuse(ReasonMalformed, "device %s was committed in %s with %d milli-GPUs and %d bytes, and this node offers it with %d and %d%s",
					d.UUID, api.AnnotationDevices, want.MilliGPU, want.MemoryBytes, d.MilliGPU, d.MemoryBytes, again)
			}
		}
	}
	return got, nil
}

// ended tells whether the containers of a pod have ended for good.
func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
