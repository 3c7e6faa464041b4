package state

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/devices"
)

// Fit says whether w fits for pod. Each shape is asked once as long as nothing
// changes here.
func (n *Ledger) Fit(pod *v1.Pod, w *Request) answer {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if r := n.heldFor(pod.UID, false); r != nil {
		if _, err := n.tryHeld(r, w); err != nil {
			return Soon
		}
		return Fits
	}
	if r := n.heldFor(pod.UID, true); r != nil { // it may have the same again
		n.let(r)
		err := tries(n.Ledger, w)
		n.keep(r)
		if err == nil {
			return Fits
		}
	}
	a, known := n.answers[w.shape]
	if known {
		return a
	}
	var several *sharing.TooManyShares
	switch err := tries(n.Ledger, w); {
	case err == nil:
		a = Fits
	case errors.As(err, &several), errors.As(n.triesEmpty(w), &several):
		a = TooMany
	case n.triesEmpty(w) == nil:
		a = Full
	default:
		a = never
	}
	n.answers[w.shape] = a
	return a
}

// tryHeld says whether w can have the devices held for it now, and which.
func (n *Ledger) tryHeld(r *reserved, w *Request) ([][]sharing.Device, error) {
	n.let(r)
	defer n.keep(r)
	got, err := n.Ledger.Commit(probe, w.Parts, r.Named)
	n.Ledger.Release(probe)
	if err != nil {
		return nil, err
	}
	for _, list := range got {
		for _, d := range list {
			if !d.Healthy {
				return nil, fmt.Errorf("device %s is unhealthy", d.UUID)
			}
		}
	}
	return got, nil
}

// triesEmpty says why w does not fit the node with nothing held, or nil.
func (n *Ledger) triesEmpty(w *Request) error {
	if n.empty == nil {
		var err error
		if n.empty, _, err = devices.LedgerOf(n.gpus, n.sharing, nil); err != nil {
			return err
		}
	}
	return tries(n.empty, w)
}

const probe = "probe" // the holder of what is only tried

// tries says why w does not fit, or nil, and leaves l as it was.
func tries(l *sharing.Ledger, w *Request) error {
	_, err := l.Allocate(probe, w.Parts)
	l.Release(probe)
	return err
}
