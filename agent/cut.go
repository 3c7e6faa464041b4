package agent

import (
	"context"
	"slices"

	"berth.dev/berth/agent/mig"
)

// cut lets the node's label say how its GPUs are cut by MIG.
func (a *agent) cut(g *group) {
	if a.cluster == nil {
		return
	}
	m := mig.New(mig.Options{
		Driver: a.client, File: a.o.MIGFile, Label: a.cluster.geometry, Holders: a.held,
		Drain:   a.keeper.Drain,
		Refresh: a.keeper.Refresh, State: a.cluster.setMIGState,
		Event: func(warning bool, reason, message string) {
			kind := "Normal"
			if warning {
				kind = "Warning"
			}
			a.nodeEvent(kind, reason, message)
		},
		Log: a.o.Log,
	})
	a.cutter.Store(m)
	g.run(func(ctx context.Context) error {
		m.Run(ctx)
		return nil
	})
}

// held names who holds each GPU and MIG device, by UUID.
func (a *agent) held() map[string][]string {
	out := map[string][]string{}
	for _, h := range a.node.Holders() {
		name := "pod " + h.Namespace + "/" + h.Pod
		for _, d := range h.Devices {
			if !slices.Contains(out[d.UUID], name) {
				out[d.UUID] = append(out[d.UUID], name)
			}
		}
	}
	return out
}

// freed tells those who wait for it that holders changed.
func (a *agent) freed() {
	a.mps.Freed()
	if a.cluster != nil {
		a.cluster.nudge()
	}
	if m := a.cutter.Load(); m != nil {
		m.Freed()
	}
}

// changedGPUs tells the MIG manager that GPUs changed.
func (a *agent) changedGPUs() {
	if m := a.cutter.Load(); m != nil {
		m.Changed()
	}
}
