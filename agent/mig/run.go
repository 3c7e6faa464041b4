package mig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/agent/settings"
	"berth.dev/berth/api"
	"berth.dev/berth/core/mig"
	"berth.dev/berth/internal/input"
)

// Run works until ctx ends. A restart in the middle loses nothing: the label
// says what is wanted, and the GPUs say what is done. Drained GPUs are released
// at the end.
func (m *Manager) Run(ctx context.Context) {
	if m.o.File != "" {
		m.read() // before the label's first value
	}
	files := m.o.FileChanges
	if files == nil && m.o.File != "" {
		own, cancel := context.WithCancel(ctx)
		changes := settings.Changes(own, m.o.Log, m.o.File)
		defer func() {
			cancel()
			for range changes { // until it has ended too
			}
		}()
		files = changes
	}
	defer m.drain(nil)
	again := time.NewTimer(m.o.Retry)
	again.Stop()
	labels := m.o.Label
	for {
		select {
		case <-ctx.Done():
			return
		case label, ok := <-labels:
			if !ok {
				labels = nil
				continue
			}
			m.label, m.known = label, true
			m.forget()
		case _, ok := <-files:
			if !ok {
				files = nil
				continue
			}
			m.read()
			m.forget()
		case <-m.freed:
			if !m.waiting {
				continue
			}
		case <-m.changed:
			maps.DeleteFunc(m.later, func(_ string, why wait) bool { return why.gone })
		case <-again.C:
			clear(m.later)
		}
		m.round(ctx)
		again.Stop()
		if len(m.later) > 0 || m.unsaid || m.put {
			again.Reset(m.o.Retry)
		}
	}
}

// forget drops what was learnt under another configuration.
func (m *Manager) forget() {
	clear(m.failed)
	clear(m.later)
	clear(m.before)
}

// read reads the file of configurations, and tells of the mistakes in it once.
func (m *Manager) read() {
	data, err := input.ReadFile(m.o.File, input.Config)
	if err != nil {
		err = fmt.Errorf("read the MIG configurations: %w", err)
	} else {
		var file config.MIGFile
		if file, err = config.ParseMIG(m.o.File, data); err == nil {
			m.sayFile(file)
			for name := range file.Faults {
				if before, ok := m.configs[name]; ok {
					file.Configs[name] = before
				}
			}
			m.configs, m.faults, m.fileErr = file.Configs, file.Faults, nil
			return
		}
	}
	m.fileErr = err
	if m.fileSaid == err.Error() {
		return
	}
	m.fileSaid = err.Error()
	stays := "; the previous configurations stay active"
	if m.configs == nil {
		stays = "; the built-in ones are available"
	}
	m.o.Log.Warn("MIG configurations", "error", err)
	m.o.Event(true, mig.ReasonFailed, m.fileSaid+stays)
}

// sayFile tells which configurations of a file are left out and why, and what
// NVIDIA's tools would refuse: the log has all of it, the event the first.
func (m *Manager) sayFile(file config.MIGFile) {
	faults := slices.Collect(maps.Values(file.Faults))
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	text := errors.Join(append(faults, file.Remarks...)...)
	if text == nil || m.fileSaid == text.Error() {
		if text == nil {
			m.fileSaid = ""
		}
		return
	}
	m.fileSaid = text.Error()
	for _, err := range faults {
		m.o.Log.Warn("ignored an invalid MIG configuration; the others are active", "error", err)
	}
	for _, err := range file.Remarks {
		m.o.Log.Info("MIG configurations", "remark", err)
	}
	if len(faults) == 0 {
		return
	}
	left, stays := "1 invalid MIG configuration is ignored: ", ""
	if len(faults) > 1 {
		left = fmt.Sprintf("%d invalid MIG configurations are ignored; the first: ", len(faults))
	}
	if _, ok := m.configs[m.label]; ok && file.Faults[m.label] != nil {
		stays = "; " + m.label + " stays as it was read before"
	}
	m.o.Event(true, mig.ReasonFailed, left+faults[0].Error()+stays)
}

// pick returns the configuration that the label names, and the indexes in it that no GPU has.
func (m *Manager) pick(gpus []mig.GPU) (mig.Config, []int, error) {
	_, read := m.configs[m.label]
	if err := m.faults[m.label]; err != nil && !read {
		return mig.Config{}, nil, err
	}
	c, missing, err := mig.Choose(m.label, m.configs, gpus)
	if _, builtin := mig.Builtin(m.label, gpus); err != nil && !builtin && m.fileErr != nil && m.configs == nil {
		err = m.fileErr
	}
	return c, missing, err
}

// round does all that can be done now.
func (m *Manager) round(ctx context.Context) {
	if !m.known || ctx.Err() != nil {
		return
	}
	if m.label == "" {
		m.waiting = false
		m.drain(nil)
		m.say(ctx, "", "")
		return
	}
	touched, done := false, map[string]bool{}
	for {
		m.put = false
		s, err := m.o.Driver.Snapshot(ctx)
		if err == nil && s.Failed != "" {
			err = errors.New(s.Failed)
		}
		if err != nil { // Changed comes when the driver answers again
			m.waiting = true
			m.say(ctx, mig.Pending, "the GPUs cannot be read: "+err.Error())
			return
		}
		gpus, err := m.gpus(ctx, s)
		if err != nil {
			m.putOff(ctx, touched, slices.Collect(maps.Keys(m.drained)), err.Error())
			return
		}
		c, missing, err := m.pick(gpus)
		if err != nil {
			m.waiting = false
			m.finish(ctx, touched, nil, mig.Failed, err.Error())
			return
		}
		gpus, ok := m.takeOut(ctx, touched, s, gpus, c)
		if !ok {
			return
		}
		steps := m.remember(mig.Plan(gpus, c))
		state, why := mig.Judge(steps)
		next := slices.IndexFunc(steps, m.ready)
		if next < 0 {
			if m.waiting = state != mig.Success; !m.waiting {
				why = mig.MissingIndexes(missing)
			}
			m.finish(ctx, touched, mig.Unfinished(steps), state, why)
			return
		}
		if !touched {
			m.say(ctx, mig.Pending, why)
		}
		touched = true
		step := steps[next]
		key := step.UUID + string(step.Action)
		if done[key] {
			m.failed[step.UUID] = "the driver reported success, but nothing changed: MIG " + string(step.Action)
			continue
		}
		done[key] = true
		m.apply(ctx, step, gpus)
		if ctx.Err() != nil {
			return
		}
	}
}

// takeOut drains the GPUs that are not as asked, and gives all as they are then: somebody
// may have come to one just before. ok is false where nothing may be touched now.
func (m *Manager) takeOut(ctx context.Context, touched bool, s nvml.Snapshot, gpus []mig.GPU, c mig.Config) (now []mig.GPU, ok bool) {
	left := mig.Unfinished(m.remember(mig.Plan(gpus, c)))
	if len(left) > 0 {
		if why := m.o.Wait(ctx); why != "" {
			m.putOff(ctx, touched, nil, why)
			return nil, false
		}
	}
	if !m.drain(left) {
		return gpus, true
	}
	now, err := m.gpus(ctx, s)
	if err != nil {
		m.putOff(ctx, touched, left, err.Error())
		return nil, false
	}
	return now, true
}

// putOff ends a round that may not touch anything, with these GPUs drained still.
func (m *Manager) putOff(ctx context.Context, touched bool, left []string, why string) {
	m.waiting, m.put = true, true
	m.finish(ctx, touched, left, mig.Pending, why)
}

// finish releases what is done, after the rest of the agent knows of it, and
// says how it ended.
func (m *Manager) finish(ctx context.Context, touched bool, left []string, state mig.State, why string) {
	if touched {
		if err := m.o.Refresh(ctx); err != nil {
			m.o.Log.Warn("the new MIG devices are not offered yet", "error", err)
		}
	}
	m.drain(left)
	m.say(ctx, state, why)
}

// gpus returns facts for a plan, with who holds what.
func (m *Manager) gpus(ctx context.Context, s nvml.Snapshot) ([]mig.GPU, error) {
	holders, err := m.o.Holders(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot tell which pods use the GPUs: %w", err)
	}
	out := make([]mig.GPU, 0, len(s.GPUs))
	for _, g := range s.GPUs {
		by := slices.Clone(holders[g.UUID])
		for _, d := range g.MIG {
			by = append(by, holders[d.UUID]...)
		}
		out = append(out, mig.GPU{
			GPU: g.GPU, PCIID: g.PCIID, SubsystemID: g.SubsystemID, Capable: g.MIGCapable, Pending: g.MIGPending,
			ComputeSlices: g.ComputeSlices, Profiles: g.Profiles, Lost: g.Lost, HeldBy: by,
		})
	}
	return out, nil
}

// remember puts what was learnt by trying into a plan, and forgets it of GPUs
// that are as asked.
func (m *Manager) remember(steps []mig.Step) []mig.Step {
	for i := range steps {
		s := &steps[i]
		if s.Action == mig.Nothing {
			delete(m.failed, s.UUID)
			delete(m.later, s.UUID)
			delete(m.before, s.UUID)
		} else if why := m.failed[s.UUID]; why != "" {
			s.Action, s.Wrong = mig.Nothing, why
		} else if w, ok := m.later[s.UUID]; ok && w.mode && s.Action == mig.Cut {
			delete(m.later, s.UUID)
		} else if ok && s.Waits == "" && s.Action != mig.Reset {
			s.Waits = w.why
		}
	}
	return steps
}

// ready reports whether a step is to be done now.
func (m *Manager) ready(s mig.Step) bool {
	_, later := m.later[s.UUID]
	return s.Action != mig.Nothing && s.Waits == "" && !later
}

// drain makes exactly these GPUs drained, and says whether one is new.
func (m *Manager) drain(uuids []string) bool {
	more := false
	for uuid, release := range m.drained {
		if !slices.Contains(uuids, uuid) {
			delete(m.drained, uuid)
			release()
		}
	}
	for _, uuid := range uuids {
		if m.drained[uuid] == nil {
			m.drained[uuid] = m.o.Drain(uuid)
			more = true
		}
	}
	return more
}

// say writes the state and tells of it, if it is another.
func (m *Manager) say(ctx context.Context, state mig.State, why string) {
	now := said{state, why}
	if now == m.said && !m.unsaid {
		return
	}
	if state != m.said.state || m.unsaid {
		err := m.o.State(ctx, state)
		m.unsaid = err != nil
		if err != nil {
			m.o.Log.Warn("the label "+api.LabelMIGState+" is not written yet", "state", state, "error", err)
		}
	}
	if now == m.said {
		return
	}
	first := m.said.state == ""
	m.said = now
	if state == mig.Success && first { // it was so before the agent started
		return
	}
	if warning, reason, message := state.Event(m.label, why); reason != "" {
		m.o.Event(warning, reason, message)
	}
}
