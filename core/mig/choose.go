package mig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Choose returns the configuration of a name for the GPUs of a node: that of file,
// else the one that Builtin knows. missing is as of Gaps. It is an error if there is
// none of that name, with the nearest that there is, or if it covers no GPU.
func Choose(name string, file map[string]Config, gpus []GPU) (c Config, missing []int, err error) {
	c, ok := file[name]
	if !ok {
		c, ok = Builtin(name, gpus)
	}
	if !ok {
		names := append(slices.Collect(maps.Keys(file)), BuiltinNames(gpus)...)
		slices.Sort(names)
		names = slices.Compact(names)
		fix := "there are " + strings.Join(names, ", ")
		if near := gpu.NearestWord(name, names); near != "" {
			fix = fmt.Sprintf("did you mean %q?", near)
		}
		return Config{}, nil, fmt.Errorf("specified MIG config %s does not exist; %s", name, fix)
	}
	none, missing := Gaps(gpus, c)
	if none {
		return Config{}, nil, fmt.Errorf("MIG config %s covers no GPU of this node; its entries are for other GPUs", name)
	}
	return c, missing, nil
}

// Unfinished returns the UUIDs of the GPUs that are not as asked and can become so: no
// pod may come to them until they are.
func Unfinished(steps []Step) []string {
	var out []string
	for _, s := range steps {
		if s.Action != Nothing {
			out = append(out, s.UUID)
		}
	}
	return out
}

// Reasons of events about a node's configuration.
const (
	ReasonPending   = "MIGConfigPending"
	ReasonDone      = "MIGConfigApplied"
	ReasonRebooting = "MIGConfigNeedsReset"
	ReasonFailed    = "MIGConfigFailed"
)

// Event returns the event that reports a state of the configuration of a name, and
// why it is so. reason is "" where there is none: without a state.
func (s State) Event(name, why string) (warning bool, reason, message string) {
	switch s {
	case Success:
		message = "MIG config " + name + " is applied"
		if why != "" {
			message += "; " + why
		}
		return false, ReasonDone, message
	case Pending:
		reason = ReasonPending
	case Rebooting:
		warning, reason = true, ReasonRebooting
	case Failed:
		warning, reason = true, ReasonFailed
	default:
		return false, "", ""
	}
	return warning, reason, "MIG config " + name + ": " + why
}

// MissingIndexes says which indexes of a configuration no GPU has, as Gaps returns them;
// "" is none.
func MissingIndexes(missing []int) string {
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("no GPU has an index of %v", missing)
}
