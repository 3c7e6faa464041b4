package settings

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/core/gpu"
)

// Fallbacks: what holds for a node without a label where there is no default.
// The words are those of NVIDIA's config manager.
const (
	FallbackNamed  = "named"  // the file "default"
	FallbackSingle = "single" // the file, where the folder has only one
	FallbackEmpty  = "empty"  // none: defaults
)

// Options say where settings are.
type Options struct {
	// File is one configuration file; "" is none.
	File string
	// Dir is a folder of them, such as a mounted ConfigMap, of which the node's
	// label picks one by name. With Dir, File does not count: NVIDIA's manifests
	// set both, and link one to the other.
	Dir string
	// Default is the file of Dir for a node without the label; "" is none.
	Default string
	// Fallbacks are tried in order where there is neither label nor Default.
	Fallbacks []string
	// Over is what flags and the environment say, least first: Values.
	Over []config.Value
	// Label returns the value of the node's label nvidia.com/device-plugin.config
	// at first and whenever it changes; "" is a node without it. With Dir and
	// Label, nothing is chosen before the first value. nil is no label, ever.
	Label <-chan string
	// Log is told of what cannot be watched. nil is silence.
	Log *slog.Logger
}

// Flags that say where settings are, besides those of config.Options, and their
// environment variables. Those but the first are of NVIDIA's config manager.
var places = []struct {
	flag, usage string
	env         []string
}{
	{"config-file", "configuration file", []string{"CONFIG_FILE", "GFD_CONFIG_FILE"}},
	{"config-dir", "directory of configuration files; the node's label nvidia.com/device-plugin.config picks one", []string{"CONFIG_FILE_SRCDIR"}},
	{"default-config", "file of config-dir for a node without the label", []string{"DEFAULT_CONFIG"}},
	{"fallback-strategies", "what to use without either: named, single, empty, comma-separated (default named,single)", []string{"FALLBACK_STRATEGIES"}},
}

// Flag is a flag that New reads.
type Flag struct {
	Name, Usage string
	Bool        bool // needs no value
}

// Flags are all flags that New reads.
func Flags() []Flag {
	var out []Flag
	for _, p := range places {
		out = append(out, Flag{Name: p.flag, Usage: p.usage})
	}
	for _, o := range config.Options() {
		out = append(out, Flag{Name: o.Flag, Usage: o.Usage, Bool: o.Bool})
	}
	return out
}

// New makes Options of the flags that were given, by name without dashes, and
// of the environment. An environment variable that is empty counts as not set;
// a flag that is given empty counts.
func New(flags map[string]string, env func(string) string) (Options, error) {
	o := Options{Fallbacks: []string{FallbackNamed, FallbackSingle}}
	known := map[string]bool{}
	fallbacks := ""
	for i, to := range []*string{&o.File, &o.Dir, &o.Default, &fallbacks} {
		p := places[i]
		known[p.flag] = true
		for _, name := range p.env {
			if v := env(name); v != "" {
				*to = v
				break
			}
		}
		if v, ok := flags[p.flag]; ok {
			*to = v
		}
	}
	if fallbacks != "" {
		o.Fallbacks = nil
		for f := range strings.SplitSeq(fallbacks, ",") {
			f = strings.TrimSpace(f)
			all := []string{FallbackNamed, FallbackSingle, FallbackEmpty}
			if !slices.Contains(all, f) {
				return Options{}, fmt.Errorf("fallback-strategies: invalid strategy: %q; use named, single or empty", f)
			}
			o.Fallbacks = append(o.Fallbacks, f)
		}
	}
	o.Over = Values(flags, env)
	for _, c := range config.Options() {
		known[c.Flag] = true
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if !known[name] {
			return Options{}, fmt.Errorf("no such flag: --%s%s", name, nearest(name, known))
		}
	}
	return o, nil
}

func nearest(name string, known map[string]bool) string {
	if near := gpu.NearestWord(name, slices.Sorted(maps.Keys(known))); near != "" {
		return "; did you mean --" + near + "?"
	}
	return ""
}

// Values returns what the environment says, and then what flags say, of the
// options of package config.
func Values(flags map[string]string, env func(string) string) []config.Value {
	var fromEnv, fromFlags []config.Value
	for _, o := range config.Options() {
		for _, name := range o.Env {
			if v := env(name); v != "" {
				fromEnv = append(fromEnv, config.Value{Flag: o.Flag, Text: v, From: name})
				break
			}
		}
		if v, ok := flags[o.Flag]; ok {
			fromFlags = append(fromFlags, config.Value{Flag: o.Flag, Text: v, From: "--" + o.Flag})
		}
	}
	return append(fromEnv, fromFlags...)
}
