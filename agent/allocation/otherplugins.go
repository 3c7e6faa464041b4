package allocation

import (
	"context"
	"errors"
	"fmt"

	"berth.dev/berth/agent/allocation/checkpoint"
	"berth.dev/berth/kube/request"
)

// What other plugins allocated, or this agent in mode kubelet, is only in the
// kubelet's checkpoint. While that cannot be read, the node offers nothing, and no
// pod gets its first devices.

var errNotRead = errors.New("not read yet")

// SetOtherPlugin reports whether another device plugin serves GPUs of this node. That
// one does not know of shares by memory: a GPU of which a pod has some GiB is free
// to it. When it has gone, what it allocated is counted before anything is offered.
func (n *Node) SetOtherPlugin(serves bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.otherPlugin == serves {
		return
	}
	if n.otherPlugin = serves; !serves {
		if n.othersUnknown = errNotRead; n.ledger.Ready() {
			n.readCheckpoint()
			n.ledger.Recount()
			n.publish()
		}
	}
	signal(n.changed)
	signal(n.tidy)
}

// readCheckpoint adds what other plugins allocated from the kubelet's checkpoint.
// If that cannot be read, othersUnknown stays as it is: readOthers looks elsewhere.
// n.mu is held, and the caller recounts.
func (n *Node) readCheckpoint() {
	if entries, err := n.checkpoint.Read(); err == nil {
		_, n.othersUnknown = n.ledger.AddForeign(entries)
	}
}

// allEntries returns all entries of the kubelet: from its checkpoint, and if that
// cannot be read, from its pod-resources API.
func (n *Node) allEntries(ctx context.Context) ([]checkpoint.Entry, error) {
	entries, err := n.checkpoint.Read()
	if err == nil || n.o.PodResources == "" {
		return entries, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	entries, e := n.podResources(ctx)
	if e != nil {
		return nil, errors.Join(err, e)
	}
	return entries, nil
}

// readOthers adds what other plugins allocated. An error says why it is not known.
func (n *Node) readOthers(ctx context.Context) error {
	entries, err := n.allEntries(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ledger.Ready() {
		return nil // no GPU to count yet; SetGPUs reads them
	}
	before := n.othersUnknown
	added := false
	if err == nil {
		added, err = n.ledger.AddForeign(entries)
	}
	if n.othersUnknown = err; added {
		n.ledger.Recount()
		signal(n.tidy) // the pods may have ended
	}
	if added || (before == nil) != (err == nil) {
		n.publish()
	}
	if err == nil {
		n.reported = false
		return nil
	}
	err = fmt.Errorf("cannot tell which GPUs other device plugins allocated to pods: %w", err)
	if !n.reported && ctx.Err() == nil {
		n.reported = true
		n.events.GivenDevicesUnknown(err)
	}
	return err
}

// recheckEnded reads pods again that were released and that a list calls live: the
// kubelet still has their entries.
func (n *Node) recheckEnded(ctx context.Context, live map[string]bool) error {
	n.mu.Lock()
	uids := n.ledger.EndedButListed(live)
	n.mu.Unlock()
	for _, uid := range uids {
		pod, err := n.o.Pods.Pod(ctx, uid, true) // the list may be older than its end
		if err != nil {
			return fmt.Errorf("read pod %s: %w", uid, err)
		}
		if pod != nil && !request.Ended(pod) {
			n.mu.Lock()
			n.ledger.NotEnded(uid)
			n.mu.Unlock()
			signal(n.tidy)
		}
	}
	return nil
}
