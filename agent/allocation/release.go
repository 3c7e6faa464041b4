package allocation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/sharing"
)

// Tidy gives back what pods hold that have ended, and takes over pods that an
// earlier plugin has given devices to. Run calls it; it is for those who cannot
// wait. An error says why pods cannot be read: then all stays held.
func (n *Node) Tidy(ctx context.Context) error {
	return errors.Join(n.sweep(ctx, false), n.adopt(ctx))
}

// sweep releases what ended pods hold. With fresh it does not trust what the
// source of pods remembers.
func (n *Node) sweep(ctx context.Context, fresh bool) (err error) {
	pods, err := n.o.Pods.Pods(ctx, fresh)
	if err != nil {
		return fmt.Errorf("list the pods of this node: %w", err)
	}
	n.tellUnreached(pods)
	live := map[string]bool{}
	for _, pod := range pods {
		live[string(pod.UID)] = live[string(pod.UID)] || !ended(pod)
	}
	n.mu.Lock()
	gone := slices.DeleteFunc(n.uids(), func(uid string) bool { return live[uid] })
	n.mu.Unlock()
	for _, uid := range gone {
		// The list may be from before the pod came: ask for it by name.
		pod, e := n.o.Pods.Pod(ctx, uid, true)
		switch {
		case e != nil:
			err = errors.Join(err, fmt.Errorf("read pod %s: %w", uid, e))
		case pod == nil && n.runs(uid):
			err = errors.Join(err, fmt.Errorf("pod %s was deleted by force, and its containers still run", uid))
		case pod == nil || ended(pod):
			n.release(uid)
		}
	}
	return err
}

// release gives back all that a pod holds.
func (n *Node) release(uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.records[uid]
	if r == nil {
		return
	}
	delete(n.records, uid)
	for i := range r.Containers {
		for _, e := range r.Containers[i].Entries {
			n.tokens.Release(e.Resource, e.Tokens)
			delete(n.nonces, tokenKey(e.Resource, e.Tokens))
			if e.Nonce == "" {
				continue
			}
			if err := n.files.remove(e.Nonce); err != nil {
				// The next start removes it; no container can use it, as its name
				// was the pod's own.
				n.log.Warn("a CDI spec that is not in use any more stays", "error", err)
			}
		}
	}
	if n.ledger != nil {
		n.ledger.Release(uid)
	}
	if len(n.astray) > 0 {
		n.recountAll()
	}
	// The kubelet may have given tokens of the pod to another before we knew.
	gave := r.tokens()
	for _, other := range n.uids() {
		if n.records[other].hasOf(gave) {
			n.holdTokens(n.records[other])
		}
	}
	n.tell()
}

// recountAll counts all records anew in an empty ledger. n.mu is held.
func (n *Node) recountAll() {
	ledger, err := sharing.NewLedger(n.gpus, n.settings.Sharing)
	if err != nil {
		n.log.Error("the node's GPUs cannot be counted anew", "error", err) // they have been, by SetGPUs
		return
	}
	n.ledger = ledger
	n.recount()
}

// adopt makes records of live pods whose devices another plugin, or this agent
// in mode kubelet, has given out: those that the kubelet's checkpoint has with
// the devices' own IDs.
func (n *Node) adopt(ctx context.Context) error {
	n.mu.Lock()
	skip := n.ledger == nil || n.adopted && !n.o.Kubelet
	n.mu.Unlock()
	if skip {
		return nil
	}
	entries, err := n.checkpoint.read()
	if err != nil {
		return err
	}
	entries = slices.Clone(entries)
	if err := readNonces(entries); err != nil {
		return err
	}
	byPod := map[string][]entry{}
	for _, e := range entries {
		if e.Nonce == "" {
			byPod[e.PodUID] = append(byPod[e.PodUID], e)
		}
	}
	for uid, list := range byPod {
		if n.holds(uid) {
			continue
		}
		pod, err := n.o.Pods.Pod(ctx, uid, !n.o.Kubelet) // once at the start, or again and again
		if err != nil {
			return fmt.Errorf("read pod %s: %w", uid, err)
		}
		if pod != nil && !ended(pod) {
			n.takeOver(pod, list)
		}
	}
	n.mu.Lock()
	n.adopted = true
	n.mu.Unlock()
	return nil
}

// takeOver makes the record of a pod of another plugin's.
func (n *Node) takeOver(pod *v1.Pod, entries []entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	offered := map[string]sharing.Device{}
	for _, d := range n.ledger.Devices() {
		offered[d.ID] = d
	}
	r := &record{PodUID: entries[0].PodUID, Namespace: pod.Namespace, Pod: pod.Name}
	for _, e := range entries {
		var devices []sharing.Device
		for _, id := range e.Tokens {
			if d, ok := offered[id]; ok {
				devices = append(devices, d)
			}
		}
		if len(devices) == 0 || n.records[r.PodUID] != nil {
			continue
		}
		r.take([]entry{e})
		c := r.container(e.Container)
		c.Devices = append(c.Devices, n.keep(devices)...)
		c.Picked = append(c.Picked, uuids(c.Devices)...)
	}
	if len(r.Containers) == 0 {
		return
	}
	n.records[r.PodUID] = r
	n.log.Info("a pod has devices of another device plugin", "pod", r.Namespace+"/"+r.Pod, "devices", uuids(r.devices()))
	n.recountAll()
	n.tell()
}
