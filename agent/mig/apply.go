package mig

import (
	"context"
	"errors"
	"slices"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/mig"
)

// inUse is why a GPU that no pod holds cannot be changed. NVIDIA's tools say "in
// use by another client".
const inUse = "in use by a process that is no pod: stop display servers, nvidia-persistenced, DCGM and other monitoring, or unload nvidia_drm (fuser -v /dev/nvidia* names processes); retrying"

// apply does one step to a drained GPU that no pod uses.
func (m *Manager) apply(ctx context.Context, s mig.Step, gpus []mig.GPU) {
	i := slices.IndexFunc(gpus, func(g mig.GPU) bool { return g.UUID == s.UUID })
	if _, ok := m.before[s.UUID]; !ok {
		m.before[s.UUID] = gpus[i]
	}
	m.o.Log.Info("MIG", "gpu", s.Index, "uuid", s.UUID, "action", s.Action, "profiles", s.Profiles)
	var err error
	needsReset := false
	switch s.Action {
	case mig.ModeOn:
		needsReset, err = m.o.Driver.SetMIGMode(ctx, s.UUID, true)
	case mig.ModeOff:
		needsReset, err = m.o.Driver.SetMIGMode(ctx, s.UUID, false)
	case mig.Reset: // what kept the mode from holding may be gone
		needsReset, err = m.o.Driver.SetMIGMode(ctx, s.UUID, !gpus[i].MIGEnabled)
	case mig.Cut:
		err = m.o.Driver.PartitionMIG(ctx, s.UUID, s.Profiles)
	case mig.Nothing:
		return
	}
	switch {
	case err == nil && needsReset:
		m.later[s.UUID] = wait{why: "its new MIG mode needs a reset", mode: true}
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, nvml.InUse):
		m.later[s.UUID] = wait{why: inUse}
	case errors.Is(err, nvml.ErrGone):
		m.later[s.UUID] = wait{why: "the driver did not answer: " + err.Error(), gone: true}
	default:
		m.failed[s.UUID] = err.Error() + m.putBack(ctx, m.before[s.UUID])
	}
}

// putBack makes a GPU what it was before the first change, and says what of that
// did not work; "" is all well.
func (m *Manager) putBack(ctx context.Context, was mig.GPU) string {
	s, err := m.o.Driver.Snapshot(ctx)
	if err != nil {
		return "; its present state is unknown: " + err.Error()
	}
	g, _, ok := s.Find(was.UUID)
	if !ok || g.Lost {
		return "; the driver can no longer reach it"
	}
	if g.MIGEnabled != was.MIGEnabled {
		needsReset, err := m.o.Driver.SetMIGMode(ctx, was.UUID, was.MIGEnabled)
		if err == nil && needsReset {
			err = errors.New("its former MIG mode needs a reset")
		}
		if err != nil {
			return "; and it could not be restored: " + err.Error()
		}
	}
	if !was.MIGEnabled {
		return "; it is unchanged"
	}
	profiles := make([]string, 0, len(was.MIG))
	for _, d := range was.MIG {
		profiles = append(profiles, d.Profile)
	}
	slices.Sort(profiles)
	// As they are already, it changes nothing.
	if err := m.o.Driver.PartitionMIG(ctx, was.UUID, profiles); err != nil {
		return "; and it could not be restored: " + err.Error()
	}
	return "; it is unchanged"
}
