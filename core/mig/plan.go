package mig

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Action is what has to be done to one GPU.
type Action string

// The actions. A GPU whose mode and devices both are wrong has one of the mode
// first; its cut follows from the next plan.
const (
	Nothing Action = "nothing" // it is as asked, or nothing is asked
	ModeOn  Action = "mode on"
	ModeOff Action = "mode off"
	Cut     Action = "cut"   // replace its MIG devices by Step.Profiles
	Reset   Action = "reset" // its mode is set, and holds only after a reset of the GPU or a restart of the node
)

// Step is what has to be done to one GPU, and whether it may be done now.
type Step struct {
	UUID     string
	Index    int
	Action   Action
	Profiles []string // of Cut, sorted by name; empty removes all devices
	// Waits is why it may not be done now: who holds the GPU. "" is now.
	Waits string
	// Wrong is why it can never be done: what the configuration asks for is not
	// possible on this GPU. Then Action is Nothing.
	Wrong string
}

// Plan says what has to be done so that the GPUs are as c asks: one step for
// each, in the order of gpus. GPUs that no entry covers stay as they are.
//
// A plan is idempotent: GPUs that are as asked need nothing, in whatever order
// their devices were made. Devices that are as asked are never moved to another
// place. A GPU that is held is never to be touched, unless there is nothing to
// do.
func Plan(gpus []GPU, c Config) []Step {
	steps := make([]Step, 0, len(gpus))
	for _, g := range gpus {
		steps = append(steps, step(g, c))
	}
	return steps
}

func step(g GPU, c Config) Step {
	s := Step{UUID: g.UUID, Index: g.Index, Action: Nothing}
	at := -1
	for i, e := range c.Entries {
		if e.covers(g) {
			at = i
		}
	}
	if at < 0 {
		return s
	}
	e := c.Entries[at]
	if s.Wrong = wrong(g, e); s.Wrong != "" {
		return s
	}
	want := e.profiles()
	switch {
	case g.MIGEnabled != e.Enabled && g.Pending:
		s.Action = Reset
	case g.Pending: // it is as asked, and would not be after a reset
		s.Action = mode(e.Enabled)
	case g.MIGEnabled != e.Enabled:
		s.Action = mode(e.Enabled)
	case e.Enabled && !slices.Equal(have(g), want):
		s.Action, s.Profiles = Cut, want
	}
	if s.Action != Nothing && len(g.HeldBy) > 0 {
		s.Waits = "held by " + listed(g.HeldBy)
	}
	return s
}

func mode(on bool) Action {
	if on {
		return ModeOn
	}
	return ModeOff
}

// wrong says why an entry can never hold for g.
func wrong(g GPU, e Entry) string {
	switch {
	case g.Lost:
		return "the driver cannot reach it; restart the node"
	case !g.Capable && e.Enabled:
		return g.Product + " has no MIG; leave this GPU out of the entry, or filter by device-filter"
	case !e.Enabled:
		return ""
	}
	p, names := product(g), e.profiles()
	if !slices.ContainsFunc(p.Profiles, func(f gpu.Profile) bool { return len(f.Placements) > 0 }) && len(p.Profiles) > 0 {
		// The driver tells places once MIG is on. Until then, names alone.
		names = slices.DeleteFunc(names, func(name string) bool { _, _, ok := p.Compute(name); return ok })
	}
	if _, err := gpu.Layout(p, names); err != nil {
		return err.Error()
	}
	return ""
}

// have lists the profiles of a GPU's MIG devices, sorted by name.
func have(g GPU) []string {
	var out []string
	for _, m := range g.MIG {
		out = append(out, m.Profile)
	}
	slices.Sort(out)
	return out
}

// listed writes names, at most three of them.
func listed(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	more := ""
	if len(names) > 3 {
		names, more = names[:3], fmt.Sprintf(" and %d more", len(names)-3)
	}
	return strings.Join(names, ", ") + more
}

// State is how far a plan is: the value of the label nvidia.com/mig.config.state.
type State string

// The states of NVIDIA's MIG manager. Rebooting is used where only a reset of a
// GPU, or a restart of its node, is left to do.
const (
	Pending   State = "pending"
	Rebooting State = "rebooting"
	Success   State = "success"
	Failed    State = "failed"
)

// Judge returns the state of a plan and a sentence of why, "" for Success. GPUs
// that can never be as asked make it failed, even while others wait; those that
// only need a reset make it rebooting once nothing else is left to do.
func Judge(steps []Step) (State, string) {
	state := Success
	var wrong, waits, reset, todo []string
	for _, s := range steps {
		name := fmt.Sprintf("GPU %d", s.Index)
		switch {
		case s.Wrong != "":
			wrong = append(wrong, name+": "+s.Wrong)
		case s.Action == Nothing:
		case s.Waits != "":
			waits = append(waits, name+": "+s.Waits)
		case s.Action == Reset:
			reset = append(reset, name+": "+afterReset)
		default:
			todo = append(todo, name+": "+s.todo())
		}
	}
	var why []string
	for _, part := range []struct {
		state State
		why   []string
	}{{Failed, wrong}, {Pending, waits}, {Pending, todo}, {Rebooting, reset}} {
		if len(part.why) > 0 && state == Success {
			state = part.state
		}
		why = append(why, part.why...)
	}
	return state, strings.Join(why, "; ")
}

// afterReset is what is left to a person. NVIDIA's tools call what is in the way
// another client.
const afterReset = "the new MIG mode holds after a reset; restart the node, or stop what else uses the GPU (display servers, nvidia_drm, DCGM, nvidia-persistenced)"

func (s Step) todo() string {
	switch {
	case s.Action != Cut:
		return "MIG " + string(s.Action)
	case len(s.Profiles) == 0:
		return "remove its MIG devices"
	}
	return "cut into " + Tally(s.Profiles)
}

// Tally writes profiles, which are sorted, as "2x 1g.5gb, 1x 3g.20gb".
func Tally(profiles []string) string {
	var out []string
	for i := 0; i < len(profiles); {
		n := 1
		for i+n < len(profiles) && profiles[i+n] == profiles[i] {
			n++
		}
		out = append(out, fmt.Sprintf("%dx %s", n, profiles[i]))
		i += n
	}
	return strings.Join(out, ", ")
}

// Gaps says what of a configuration is for no GPU of a node: none, where no
// entry covers any; else the indexes that no GPU has, ascending. Neither is
// wrong by itself, since one file serves nodes of several kinds, as do UUIDs.
func Gaps(gpus []GPU, c Config) (none bool, missing []int) {
	none = true
	for _, e := range c.Entries {
		for _, i := range e.Indexes {
			if !slices.ContainsFunc(gpus, func(g GPU) bool { return g.Index == i }) {
				missing = append(missing, i)
			}
		}
		if slices.ContainsFunc(gpus, e.covers) {
			none = false
		}
	}
	slices.Sort(missing)
	return none, slices.Compact(missing)
}
