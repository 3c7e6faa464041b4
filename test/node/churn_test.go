//go:build linux

package node_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestChurn has pods come and go on all GPUs of a node at once. Each wants a GPU
// that another pod may still hold: it gets it when that one's container is gone,
// and never before. Every GPU has five holders one after the other.
func TestChurn(t *testing.T) {
	if !isolated(t) {
		return
	}
	// The kubelet counts a pod that is ending, and refuses another one for good:
	// so the node has twice as many GPUs as are used.
	const gpus, rounds = 8, 5
	n := newWholeNode(t, a100, 2*gpus)
	c := churn{node: n, gpus: gpus, last: make([]string, gpus)}
	began := time.Now()
	var slots sync.WaitGroup
	for slot := range gpus {
		slots.Go(func() {
			for round := 0; round < rounds && !t.Failed(); round++ {
				if err := c.one(slot, round); err != nil {
					t.Errorf("slot %d, round %d: %v", slot, round, err)
				}
			}
		})
	}
	slots.Wait()
	t.Logf("figure: %d pods came and went in %v, each with the GPU that was committed to it, and no GPU was given twice",
		c.count.Load(), time.Since(began).Round(time.Second))
	n.offers(t, gpuResource, 2*gpus)
	n.stale(t)
}

// churn is the pods of that test.
type churn struct {
	*node
	gpus  int
	count atomic.Int64

	mu   sync.Mutex
	last []string // the pod that ran last on each GPU
}

// one starts a pod, looks at what its container sees, and ends it.
func (c *churn) one(slot, round int) error {
	gpu, name := (slot+round)%c.gpus, fmt.Sprintf("churn-%d-%d", slot, round)
	c.apply(pod(name, commit("c", uuid(gpu)), 1))
	var r report
	err := until(patience, "pod "+name+" reports", func() error {
		var err error
		if r, err = reported(name, "c"); err != nil {
			err = fmt.Errorf("%w (%s)", err, c.state(name))
		}
		return err
	})
	if err == nil {
		err = only(r, gpu)
	}
	c.mu.Lock()
	before := c.last[gpu]
	c.last[gpu] = name
	c.mu.Unlock()
	if pids := processes(uidOf(before)); before != "" && len(pids) > 0 {
		err = errors.Join(err, fmt.Errorf("pods %s and %s run on GPU %d", before, name, gpu))
	}
	c.count.Add(1)
	return errors.Join(err, c.removed(name))
}
