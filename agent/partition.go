package agent

import (
	"context"
	"slices"

	"berth.dev/berth/agent/mig"
)

// runMIG partitions the GPUs as the node's label says.
func (a *agent) runMIG(g *group) {
	if a.cluster == nil {
		return
	}
	m := mig.New(mig.Options{
		Driver: a.client, File: a.o.MIGFile, Label: a.cluster.geometry, Holders: a.inUse, Wait: a.otherPlugin,
		Drain:   a.reconciler.Drain,
		Refresh: a.reconciler.Refresh, State: a.cluster.setMIGState,
		Event: func(warning bool, reason, message string) {
			kind := "Normal"
			if warning {
				kind = "Warning"
			}
			a.nodeEvent(kind, reason, message)
		},
		Log: a.o.Log,
	})
	a.mig.Store(m)
	g.run(func(ctx context.Context) error {
		m.Run(ctx)
		return nil
	})
}

// inUse returns who holds each GPU and MIG device, by UUID, and to whom it is committed
// whose containers have not started.
func (a *agent) inUse(ctx context.Context) (map[string][]string, error) {
	out := map[string][]string{}
	add := func(uuid, name string) {
		if !slices.Contains(out[uuid], name) {
			out[uuid] = append(out[uuid], name)
		}
	}
	// In this order: a pod that starts in between is found by one or the other.
	pending, err := a.node.Pending(ctx)
	for uuid, pods := range pending {
		for _, p := range pods {
			add(uuid, "pod "+p+", which has not started")
		}
	}
	for _, h := range a.node.Holders() {
		for _, d := range h.Devices {
			add(d.UUID, "pod "+h.Namespace+"/"+h.Pod)
		}
	}
	return out, err
}

// holdersOf names who holds a GPU or MIG device now.
func (a *agent) holdersOf(uuid string) []string {
	var out []string
	for _, h := range a.node.Holders() {
		for _, d := range h.Devices {
			if name := "pod " + h.Namespace + "/" + h.Pod; d.UUID == uuid && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// freed reports to MPS, the cluster and MIG that holders may have changed.
func (a *agent) freed() {
	a.mps.Freed()
	if a.cluster != nil {
		a.cluster.nudge()
	}
	if m := a.mig.Load(); m != nil {
		m.Freed()
	}
}

// changedGPUs reports to the MIG manager that GPUs changed.
func (a *agent) changedGPUs() {
	if m := a.mig.Load(); m != nil {
		m.Changed()
	}
}
