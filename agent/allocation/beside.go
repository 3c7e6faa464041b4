package allocation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/sharing"
)

// What other plugins gave, or this agent in mode kubelet, stands in the kubelet's
// record under the devices' own IDs. It is held as soon as it is read, whatever has
// become of the pods: sweep gives back what those hold that have ended. While it
// cannot be read, nothing is offered, and no pod gets its first devices.

// errUnread says that nobody has looked yet.
var errUnread = errors.New("nobody has looked yet")

// Beside says whether another device plugin gives out GPUs of this node. It knows
// nothing of shares by memory: a GPU of which a pod has some GiB is free to it.
// When it has gone, what it gave is held before anything is offered.
func (n *Node) Beside(other bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.beside == other {
		return
	}
	if n.beside = other; !other {
		if n.unread = errUnread; n.ledger != nil {
			n.readGiven()
			n.recountAll()
			n.tell()
		}
	}
	signal(n.changed)
	signal(n.tidy)
}

// readGiven reads what is to be held from the kubelet's checkpoint, for those who
// hold n.mu and count anew afterwards. What cannot be read there stays as known or
// unknown as it was: learn looks elsewhere.
func (n *Node) readGiven() {
	if entries, err := n.checkpoint.read(); err == nil {
		_, n.unread = n.note(entries)
	}
}

// answerTime is how long the kubelet may take to list its pods' resources.
const answerTime = 10 * time.Second

// kubeletEntries are all entries of the kubelet: of its checkpoint, and where that
// cannot be read, of its pods' resources.
func (n *Node) kubeletEntries(ctx context.Context) ([]entry, error) {
	entries, err := n.checkpoint.read()
	if err == nil || n.o.PodResources == "" {
		return entries, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	entries, e := n.listed(ctx)
	if e != nil {
		return nil, errors.Join(err, e)
	}
	return entries, nil
}

// learn holds what other plugins have given.
func (n *Node) learn(ctx context.Context) error {
	entries, err := n.kubeletEntries(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ledger == nil {
		return nil // there is nothing to hold yet; SetGPUs looks
	}
	before := n.unread
	more := false
	if err == nil {
		more, err = n.note(entries)
	}
	if n.unread = err; more {
		n.recountAll()
		signal(n.tidy) // the pods may have ended
	}
	if more || (before == nil) != (err == nil) {
		n.tell()
	}
	if err == nil {
		n.cried = false
		return nil
	}
	err = fmt.Errorf("it is not known which GPUs other device plugins gave to pods: %w", err)
	if !n.cried && ctx.Err() == nil {
		n.cried = true
		n.o.NodeEvent(v1.EventTypeWarning, "GivenDevicesUnknown", "no GPU of this node is offered: "+err.Error())
	}
	return err
}

// note makes records of what entries of other plugins name, and tells whether there
// is something new. An error names devices that are somebody's, nobody knows whose.
// n.mu is held.
func (n *Node) note(entries []entry) (more bool, err error) {
	named := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		named[e.PodUID] = true
		if n.past[e.PodUID] || n.records[e.PodUID].knows(e) {
			continue
		}
		devices := n.given(e)
		switch {
		case len(devices) == 0 || e.ours():
		case e.PodUID == "":
			err = errors.Join(err, fmt.Errorf("container %s has %s of %s, and its pod is not listed", e.Container, names(e.Tokens), e.Resource))
		default:
			n.receive(e, devices)
			more = true
		}
	}
	if err == nil {
		for uid := range n.past {
			if !named[uid] {
				delete(n.past, uid)
			}
		}
	}
	return more, err
}

// ours tells whether an entry is of an answer of ours: a token keeps the name that
// another plugin's pod had brought.
func (e *entry) ours() bool {
	nonce, err := nonceOf(e.answer)
	return e.Nonce != "" || err == nil && nonce != ""
}

// given are the devices that an entry names by their own IDs: as they are offered,
// and where they are not, as all of the hardware that they are of.
func (n *Node) given(e *entry) []device {
	var out []device
	for _, id := range e.Tokens {
		uuid, _, _ := strings.Cut(id, "::")
		for i := range n.gpus {
			g := &n.gpus[i]
			d := device{ID: id, Resource: e.Resource, UUID: uuid, Parent: g.UUID, GPU: g.Index, MilliGPU: 1000, MemoryBytes: g.MemoryBytes}
			here := g.UUID == uuid
			for _, m := range g.MIG {
				if m.UUID == uuid {
					here, d.Profile, d.MemoryBytes = true, m.Profile, m.MemoryBytes
				}
			}
			if here {
				out = append(out, n.asOffered(d))
				break
			}
		}
	}
	return out
}

// asOffered is a device as the node offers it under its ID, or as it is.
func (n *Node) asOffered(d device) device {
	for _, o := range n.ledger.Devices() {
		if o.ID == d.ID {
			return n.keep([]sharing.Device{o})[0]
		}
	}
	return d
}

// receive notes what a container was given by another plugin, instead of what that
// had given it of the resource before. Its pod is named by its UID until meet.
func (n *Node) receive(e *entry, devices []device) {
	r := &record{PodUID: e.PodUID, Pod: e.PodUID}
	if before := n.records[e.PodUID]; before != nil {
		r = before.clone()
	}
	old := r.container(e.Container)
	var kept []device
	if old != nil {
		i := slices.IndexFunc(old.Entries, func(o entry) bool { return o.Resource == e.Resource })
		kept = slices.DeleteFunc(slices.Clone(old.Devices), func(d device) bool { return i >= 0 && slices.Contains(old.Entries[i].Tokens, d.ID) })
	}
	r.take([]entry{{PodUID: e.PodUID, Container: e.Container, Resource: e.Resource, Tokens: e.Tokens}})
	c := r.container(e.Container)
	c.Devices = append(kept, devices...)
	c.Picked = uuids(c.Devices)
	n.records[e.PodUID] = r
	n.log.Info("a pod has devices of another device plugin", "uid", e.PodUID, "container", e.Container, "devices", uuids(devices))
}

// meet learns from pods what those are called that other plugins gave devices to.
// n.mu is held.
func (n *Node) meet(pods []*v1.Pod) {
	for _, pod := range pods {
		if r := n.records[string(pod.UID)]; r != nil && r.Namespace == "" && pod.Name != "" {
			r.Namespace, r.Pod = pod.Namespace, pod.Name
			signal(n.held)
		}
	}
}

// revive has pods looked at again that were thought to have ended and that a list
// says live: the kubelet names them still.
func (n *Node) revive(ctx context.Context, live map[string]bool) error {
	n.mu.Lock()
	uids := slices.DeleteFunc(slices.Collect(maps.Keys(n.past)), func(uid string) bool { return !live[uid] })
	n.mu.Unlock()
	for _, uid := range uids {
		pod, err := n.o.Pods.Pod(ctx, uid, true) // the list may be from before the end
		if err != nil {
			return fmt.Errorf("read pod %s: %w", uid, err)
		}
		if pod != nil && !ended(pod) {
			n.mu.Lock()
			delete(n.past, uid)
			n.mu.Unlock()
			signal(n.tidy)
		}
	}
	return nil
}

// knows tells whether a record has an entry.
func (r *record) knows(e *entry) bool {
	if r == nil {
		return false
	}
	c := r.container(e.Container)
	return c != nil && slices.ContainsFunc(c.Entries, func(o entry) bool { return o.has(e.Resource, e.Tokens) })
}

// serves tells whether the node offers a resource.
func (n *Node) serves(resource string) bool {
	return slices.ContainsFunc(n.ledger.Devices(), func(d sharing.Device) bool { return d.Resource == resource })
}
