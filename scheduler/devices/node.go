package devices

import (
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube"
)

// node is the devices of one node at one generation of its NodeInfo.
type node struct {
	generation int64
	err        error   // its annotations cannot be read
	problems   []error // pods that could not be counted

	mu      sync.Mutex
	gpus    []gpu.GPU
	sharing gpu.Sharing
	ledger  *sharing.Ledger // nil: the node publishes no devices
	empty   *sharing.Ledger // the same with nothing held; made when it is needed
	object  *v1.Node
	answers map[string]answer // by shape
}

// answer says whether a request fits a node.
type answer uint8

const (
	fits    answer = iota
	full           // not now; it would if pods left
	never          // not if it were empty either
	tooMany        // it asks for several shares where the node gives one only
)

// newNode counts pods on a node. Its annotations are read only where they are
// not those of old, the node before, which may be nil.
func newNode(info fwk.NodeInfo, pods []kube.Bound, old *node) *node {
	n := &node{generation: info.GetGeneration(), object: info.Node(), answers: map[string]answer{}}
	if old != nil && old.err == nil && same(n.object, old.object, api.AnnotationInventory) && same(n.object, old.object, api.AnnotationPluginConfig) {
		n.gpus, n.sharing = old.gpus, old.sharing
	} else {
		n.gpus, n.sharing, n.err = kube.GPUs(n.object)
	}
	if n.err != nil || len(n.gpus) == 0 {
		return n
	}
	if n.ledger, n.problems, n.err = kube.LedgerOf(n.gpus, n.sharing, pods); n.err != nil {
		n.err = fmt.Errorf("node %s: %w", n.object.Name, n.err)
	}
	return n
}

// same says whether two versions of a node have the same annotation.
func same(a, b *v1.Node, annotation string) bool {
	return a.Annotations[annotation] == b.Annotations[annotation]
}

// fit says whether w fits. Each shape is asked once a generation.
func (n *node) fit(w *wanted) answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	a, known := n.answers[w.shape]
	if known {
		return a
	}
	var several *sharing.TooManyShares
	switch err := tries(n.ledger, w); {
	case err == nil:
		a = fits
	case errors.As(err, &several), errors.As(n.triesEmpty(w), &several):
		a = tooMany
	case n.triesEmpty(w) == nil:
		a = full
	default:
		a = never
	}
	n.answers[w.shape] = a
	return a
}

// triesEmpty says why w does not fit the node with nothing held, or nil.
func (n *node) triesEmpty(w *wanted) error {
	if n.empty == nil {
		var err error
		if n.empty, _, err = kube.LedgerOf(n.gpus, n.sharing, nil); err != nil {
			return err
		}
	}
	return tries(n.empty, w)
}

const trial = "trial"

// tries says why w does not fit, or nil, and leaves l as it was.
func tries(l *sharing.Ledger, w *wanted) error {
	_, err := l.Allocate(trial, w.parts)
	l.Release(trial)
	return err
}

// choose picks the devices of w for pod. The ledger is as before: the choice
// counts from the next generation, in which the pod is on the node.
func (n *node) choose(pod *v1.Pod, w *wanted) (*choice, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	got, err := n.ledger.Allocate(trial, w.parts)
	n.ledger.Release(trial)
	if err != nil {
		return nil, err
	}
	c := &choice{pod: pod, node: n.object.Name, named: map[string][]sharing.Named{}}
	for i := range w.parts {
		c.named[w.parts[i].Name] = sharing.NamedOf(got[i])
	}
	c.annotation, err = kube.Commitment(w.parts, got)
	return c, err
}
