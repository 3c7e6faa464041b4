package allocation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/kube/request"
)

// Tidy counts what other plugins have allocated, and frees what ended pods hold.
// Run calls it; call it to not wait for that. An error says what cannot be read:
// then everything stays held.
func (n *Node) Tidy(ctx context.Context) error {
	return errors.Join(n.readOthers(ctx), n.sweep(ctx, false))
}

// sweep releases what ended pods hold. With fresh it does not trust the cache of
// the source of pods.
func (n *Node) sweep(ctx context.Context, fresh bool) (err error) {
	pods, err := n.o.Pods.Pods(ctx, fresh)
	if err != nil {
		return fmt.Errorf("list the pods of this node: %w", err)
	}
	n.reportUnserved(pods)
	n.notePending(pods)
	live := map[string]bool{}
	for _, pod := range pods {
		live[string(pod.UID)] = live[string(pod.UID)] || !request.Ended(pod)
	}
	n.mu.Lock()
	n.setNames(pods)
	gone := slices.DeleteFunc(n.ledger.UIDs(), func(uid string) bool { return live[uid] })
	n.mu.Unlock()
	if !fresh {
		err = n.recheckEnded(ctx, live)
	}
	for _, uid := range gone {
		// The list may be older than the pod: read it by name.
		pod, e := n.o.Pods.Pod(ctx, uid, true)
		switch {
		case e != nil:
			err = errors.Join(err, fmt.Errorf("read pod %s: %w", uid, e))
		case pod == nil && n.runs(uid):
			err = errors.Join(err, fmt.Errorf("pod %s was deleted by force, and its containers still run", uid))
		case pod == nil || request.Ended(pod):
			n.release(uid)
		default:
			n.mu.Lock()
			n.setNames([]*v1.Pod{pod})
			n.mu.Unlock()
		}
	}
	return err
}

// setNames sets the names of pods that are known by their UID alone. n.mu is held.
func (n *Node) setNames(pods []*v1.Pod) {
	if n.ledger.SetNames(pods) {
		signal(n.held)
	}
}

// release frees all that a pod holds and removes its CDI specs.
func (n *Node) release(uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.ledger.Release(uid)
	if r == nil {
		return
	}
	for i := range r.Containers {
		for _, e := range r.Containers[i].Entries {
			n.answers.Forget(e.Resource, e.DeviceIDs)
			if e.Nonce != "" {
				n.removeSpec(e.Nonce)
			}
		}
	}
	n.publish()
}

// removeSpec removes a CDI spec that is no longer in use. If it cannot, load does
// when the agent starts again; no container can use it until then, as its name was
// the pod's alone. n.mu is held.
func (n *Node) removeSpec(nonce string) {
	if err := n.specs.Remove(nonce); err != nil {
		n.log.Warn("cannot remove an unused CDI spec", "error", err)
	}
}

// reportUnserved sends events about pods that start without their committed GPU.
func (n *Node) reportUnserved(pods []*v1.Pod) {
	n.mu.Lock()
	served := slices.Sorted(maps.Keys(n.offers))
	n.mu.Unlock()
	live := slices.DeleteFunc(slices.Clone(pods), request.Ended)
	n.unserved.Report(n.events, live, served)
}
