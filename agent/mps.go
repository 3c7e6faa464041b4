package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	cdi "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/agent/mps"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// newMPS makes the manager of the MPS daemon. Its folder is that of the settings of
// a node without a label: clients know it from when they were started.
func (a *agent) newMPS() *mps.Manager {
	return mps.New(mps.Options{
		Program: a.o.MPSProgram, Root: a.initial.MPSRoot, SetExclusive: a.client.SetExclusive,
		Busy: func() []string {
			var out []string
			for _, h := range a.node.Holders() {
				for _, d := range h.Devices {
					if d.ID != d.UUID {
						out = append(out, "pod "+h.Namespace+"/"+h.Pod)
						break
					}
				}
			}
			return out
		},
		Wait:   a.otherPlugin,
		Health: func(map[string]string) { a.reconciler.Reoffer() },
		Log:    a.o.Log,
	})
}

// runMPS runs the daemon while the settings share GPUs by MPS.
func (a *agent) runMPS(g *group) {
	g.run(func(ctx context.Context) error {
		a.mps.Run(ctx)
		return nil
	})
}

// setMPS says what the daemon is to serve now. It is called whenever that may have
// changed, no matter by which process.
func (a *agent) setMPS() {
	if a.mps == nil {
		return
	}
	a.mpsMu.Lock() // the last who comes has all that is new
	defer a.mpsMu.Unlock()
	a.mps.Set(wantMPS(a.now(), a.others.any()))
}

// wantMPS is what the daemon serves with a status: nothing beside another device
// plugin, which has a daemon of its own.
func wantMPS(s Status, beside bool) mps.Want {
	if !s.InForce || beside {
		return mps.Want{}
	}
	return mps.WantOf(s.Snapshot.Node().GPUs, s.Settings.Sharing)
}

// mpsEdits let a container with these shares reach the daemon.
func (a *agent) mpsEdits(shares []sharing.Device) (*cdi.ContainerEdits, error) {
	s := a.now()
	var order []string
	held := map[string]int{}
	for _, d := range shares {
		if held[d.UUID] == 0 {
			order = append(order, d.UUID)
		}
		held[d.UUID]++
	}
	var list []mps.Share
	for _, uuid := range order {
		g, _, ok := s.Snapshot.Find(uuid)
		if !ok {
			return nil, fmt.Errorf("GPU %s does not exist", uuid)
		}
		if why := a.mps.Unhealthy()[uuid]; why != "" {
			return nil, errors.New(why)
		}
		list = append(list, mps.Share{MemoryBytes: g.MemoryBytes, Replicas: s.Settings.Replicas[gpu.ResourceGPU], Held: held[uuid]})
	}
	e := a.mps.Edits(list)
	out := &cdi.ContainerEdits{}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		out.Env = append(out.Env, name+"="+e.Env[name])
	}
	for _, m := range e.Mounts {
		out.Mounts = append(out.Mounts, &cdi.Mount{HostPath: m.Host, ContainerPath: m.Container, Options: []string{"rw", "nosuid", "nodev", "bind"}})
	}
	return out, nil
}
