package meter

import (
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"berth.dev/berth/core/usage"
)

const (
	noticed   = time.Minute    // a clock that is set back by less is not worth a word
	mostFrost = 24 * time.Hour // by how much a clock may be set back for time to stand still until it has caught up
)

// forward is a clock that does not go back: if the one of the machine does, time stands still until that has caught up, and no interval
// ends before it began. After more than a day it follows. It is safe for concurrent use.
func forward(now func() time.Time) func() time.Time {
	var last atomic.Int64
	var said atomic.Bool
	return func() time.Time {
		for {
			at, was := now(), last.Load()
			back := time.Duration(was-at.UnixMilli()) * time.Millisecond
			if back > 0 && back <= mostFrost {
				if back > noticed && !said.Swap(true) {
					klog.InfoS("The clock has been set back: until it has caught up, what changes is counted at the time of before", "by", back, "counted", time.UnixMilli(was).UTC())
				}
				return time.UnixMilli(was).UTC()
			}
			if last.CompareAndSwap(was, at.UnixMilli()) {
				if back <= 0 {
					said.Store(false)
				}
				return at
			}
		}
	}
}

// setClock notes by how much the clock of a node is off, from when it last said that it is there.
func (t *tally) setClock(was, is *v1.Node) {
	beat := lastBeat(is)
	if !t.current || !beat.After(lastBeat(was)) {
		return
	}
	off := usage.Off(beat, t.now())
	if off == 0 {
		delete(t.off, is.Name)
		return
	}
	if _, known := t.off[is.Name]; !known {
		klog.InfoS("The clock of a node is off: ends of its pods are corrected by as much", "node", is.Name, "ahead", off)
	}
	t.off[is.Name] = off
}

// lastBeat is when a node last said that it is there, by its own clock.
func lastBeat(n *v1.Node) (at time.Time) {
	for i := range n.Status.Conditions {
		if beat := n.Status.Conditions[i].LastHeartbeatTime; beat.After(at) {
			at = beat.Time
		}
	}
	return at
}
