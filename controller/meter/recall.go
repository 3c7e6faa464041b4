package meter

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/core/audit"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/internal/pause"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/record"
	"berth.dev/berth/kube/request"
)

// recallAll is how long all node agents together may take to say what the meter missed.
const recallAll = 30 * time.Second

// recallAgain is how long the meter waits before it asks an agent again that did not answer: with a new version, both start at once.
const recallAgain = time.Second

// recall asks node agents for the pods that were gone while no meter was there. Without an answer
// in time, pods that the ledger has open end when they were last seen, and others are not in it.
func (m *Meter) recall(ctx context.Context, from *proxy.Gauges) {
	ctx, cancel := context.WithTimeout(ctx, recallAll)
	defer cancel()
	const silent = "Node agents cannot be asked which pods came and went while the ledger was not there"
	nodes, err := from.Nodes(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, silent)
		return
	}
	m.mu.Lock()
	since := m.tally.alive.Add(-heartbeat)
	m.mu.Unlock()
	failed := make([]error, len(nodes))
	slots := make(chan struct{}, readAtOnce)
	var asks sync.WaitGroup
	for i, node := range nodes {
		slots <- struct{}{}
		asks.Go(func() {
			defer func() { <-slots }()
			failed[i] = m.recallOf(ctx, from, node, since)
		})
	}
	asks.Wait()
	if err := errors.Join(failed...); err != nil {
		left := slices.DeleteFunc(failed, func(err error) bool { return err == nil })
		klog.FromContext(ctx).Error(left[0], silent, "nodes", len(left))
	}
}

// recallOf asks the agent of a node, and again while it does not answer and the node is ready.
func (m *Meter) recallOf(ctx context.Context, from *proxy.Gauges, node string, since time.Time) error {
	list, said, err := from.Record(ctx, node, since)
	for err != nil && !errors.Is(err, fs.ErrPermission) && m.ready(node) && pause.For(ctx, m.again) {
		list, said, err = from.Record(ctx, node, since)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	off := time.Duration(0)
	if !said.IsZero() {
		off = usage.Off(said, m.tally.now())
	}
	for _, g := range list {
		m.tally.recorded(node, g, off)
	}
	return nil
}

// ready reports whether a node is.
func (m *Meter) ready(node string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.tally.nodes[node]
	return n != nil && devices.NodeReady(n)
}

// recorded notes a pod that was gone before this meter came, as the agent of its node has recorded it. The clock of the node is ahead by off. A node
// speaks for itself only.
func (t *tally) recorded(name string, g record.Gone, off time.Duration) {
	p, node := g.Pod, t.nodes[name]
	if node == nil || p.Spec.NodeName != name || !request.AsksForGPUs(p) || t.done[p.UID] || t.pods[name][p.UID] != nil {
		return
	}
	bound := request.BoundAt(p)
	hold, has := t.holds.Has(string(p.UID))
	if has && hold.Value.Node != string(node.UID) || !has && (bound.Before(node.CreationTimestamp.Time) || t.had(string(p.UID))) {
		return // it was on a node that had this name before, or the ledger has it
	}
	from, stated := t.begins(bound), saidEnd(p)
	if stated.IsZero() || !request.Ended(p) {
		stated = g.At
	}
	if has {
		from = hold.From
	} else if stated.Add(-off).Before(t.began.Truncate(time.Second)) { // what is stated is in seconds
		return
	}
	at, end := usage.Ended(stated, from, t.alive, t.now(), off)
	if end.Source == usage.Stated && !request.Ended(p) {
		end.Source = usage.Recorded
	}
	if !has {
		held := *p
		held.Status.Phase = v1.PodRunning
		t.hold(&held)
	}
	t.traceRecorded(p, at)
	t.end(p, at, end)
	delete(t.holders, p.UID)
}

// traceRecorded notes what has happened to a pod that was gone at a time.
func (t *tally) traceRecorded(p *v1.Pod, at time.Time) {
	is := lookAtGone(p, at.UTC())
	t.batch.Askers = append(t.batch.Askers, t.who(p))
	t.batch.Records = append(t.batch.Records, audit.Next(&audit.Pod{}, &is, t.now())...)
}
