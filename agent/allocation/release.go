package allocation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/sharing"
)

// Tidy takes note of what other plugins have given to pods, and gives back what
// pods hold that have ended. Run calls it; it is for those who cannot wait. An
// error says what cannot be read: then all stays held.
func (n *Node) Tidy(ctx context.Context) error {
	return errors.Join(n.learn(ctx), n.sweep(ctx, false))
}

// sweep releases what ended pods hold. With fresh it does not trust what the
// source of pods remembers.
func (n *Node) sweep(ctx context.Context, fresh bool) (err error) {
	pods, err := n.o.Pods.Pods(ctx, fresh)
	if err != nil {
		return fmt.Errorf("list the pods of this node: %w", err)
	}
	n.tellUnreached(pods)
	n.tellPromised(pods)
	live := map[string]bool{}
	for _, pod := range pods {
		live[string(pod.UID)] = live[string(pod.UID)] || !ended(pod)
	}
	n.mu.Lock()
	n.meet(pods)
	gone := slices.DeleteFunc(n.uids(), func(uid string) bool { return live[uid] })
	n.mu.Unlock()
	if !fresh {
		err = n.revive(ctx, live)
	}
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
		default:
			n.mu.Lock()
			n.meet([]*v1.Pod{pod})
			n.mu.Unlock()
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
	n.past[uid] = true
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
