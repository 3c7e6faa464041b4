package mig

import (
	"slices"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Builtin returns a configuration that needs no file, by the names that NVIDIA's
// default file uses: all-disabled; all-enabled, without devices; and all- with
// a MIG profile, such as all-1g.5gb or all-1g.5gb.me, for as many as fit on
// every GPU that has the profile. GPUs that do not have it stay as they are.
func Builtin(name string, gpus []GPU) (Config, bool) {
	word, ok := strings.CutPrefix(name, "all-")
	c := Config{Name: name}
	switch {
	case !ok:
		return Config{}, false
	case word == "disabled":
		c.Entries = []Entry{{All: true}}
		return c, true
	case word == "enabled":
		c.Entries = []Entry{{Indexes: indexes(gpus, func(g GPU) bool { return g.Capable }), Enabled: true}}
		return c, len(c.Entries[0].Indexes) > 0
	}
	for _, g := range gpus {
		if f, ok := product(g).Profile(word); ok && g.Capable {
			c.Entries = append(c.Entries, Entry{Indexes: []int{g.Index}, Enabled: true, Devices: map[string]int{f.Name: f.Max}})
		}
	}
	return c, len(c.Entries) > 0
}

// BuiltinNames are the names that Builtin knows for these GPUs, sorted.
func BuiltinNames(gpus []GPU) []string {
	out := []string{"all-disabled"}
	for _, g := range gpus {
		if !g.Capable {
			continue
		}
		out = append(out, "all-enabled")
		for _, f := range product(g).Profiles {
			out = append(out, "all-"+strings.TrimPrefix(gpu.MIGResource(f.Name), "nvidia.com/mig-"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func indexes(gpus []GPU, is func(GPU) bool) []int {
	var out []int
	for _, g := range gpus {
		if is(g) {
			out = append(out, g.Index)
		}
	}
	return out
}
