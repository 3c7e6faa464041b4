package state

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// newLedger counts pods on a node. Its annotations are read only where they are
// not those of old, the node before, which may be nil.
func newLedger(info fwk.NodeInfo, pods []devices.Bound, holds []*Hold, old *Ledger) *Ledger {
	n := &Ledger{
		generation: info.GetGeneration(), object: info.Node(), answers: map[string]answer{},
		Pods: make(map[types.UID]*counted, len(pods)), exact: true,
	}
	if old != nil {
		n.Version = old.Version + 1
	}
	if old != nil && old.Err == nil && devices.SameAnnotations(n.object, old.object) {
		n.gpus, n.sharing = old.gpus, old.sharing
	} else {
		n.gpus, n.sharing, n.Err = devices.GPUs(n.object)
	}
	if n.Err != nil || len(n.gpus) == 0 {
		n.take(holds)
		return n
	}
	if n.Ledger, n.problems, n.Err = devices.LedgerOf(n.gpus, n.sharing, pods); n.Err != nil {
		n.Err = fmt.Errorf("node %s: %w", n.object.Name, n.Err)
		return n
	}
	for _, b := range pods {
		c := &counted{Pod: b.Pod, asks: true, note: b.Pod.Annotations[api.AnnotationDevices]}
		n.exact = n.exact && (c.note != "" || b.Assumed != nil)
		n.Pods[b.Pod.UID] = c
	}
	n.exact = n.exact && len(n.problems) == 0
	for _, h := range n.Ledger.Held() { // sorted
		if c := n.Pods[types.UID(h.Owner)]; c != nil {
			c.Devices = append(c.Devices, h.Device)
		}
	}
	n.take(holds)
	return n
}

// count counts a pod whose devices its note names, with mu held, and says
// whether it could be.
func (n *Ledger) count(c *counted) bool {
	if c.named == nil {
		var err error
		if c.named, err = commit.ParseCommitment(c.note); err != nil {
			return false
		}
	}
	if c.parts == nil {
		c.parts = request.Parts(c.Pod)
	}
	got, err := n.Ledger.Commit(string(c.Pod.UID), c.parts, c.named)
	if err != nil {
		return false
	}
	c.Devices = distinct(got)
	return true
}

// distinct gives each device once.
func distinct(lists [][]sharing.Device) []sharing.Device {
	var out []sharing.Device
	for _, list := range lists {
		for _, d := range list {
			if !slices.ContainsFunc(out, func(o sharing.Device) bool { return o.ID == d.ID }) {
				out = append(out, d)
			}
		}
	}
	return out
}
