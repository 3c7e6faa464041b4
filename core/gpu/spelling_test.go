package gpu_test

import (
	"testing"

	"berth.dev/berth/core/gpu"
)

// The names are those of NVIDIA's tools, documents and unit tests.
func TestCanonicalProfile(t *testing.T) {
	for _, tt := range []struct{ name, spelled, want, resource string }{
		{"a plain profile", "1g.5gb", "1g.5gb", "nvidia.com/mig-1g.5gb"},
		{"media extensions", "1g.5gb+me", "1g.5gb+me", "nvidia.com/mig-1g.5gb.me"},
		{"media extensions as a resource is named", "1g.5gb.me", "1g.5gb+me", "nvidia.com/mig-1g.5gb.me"},
		{"all media engines", "2g.48gb+me.all", "2g.48gb+me.all", "nvidia.com/mig-2g.48gb.me.all"},
		{"all media engines as a resource is named", "2g.48gb.me.all", "2g.48gb+me.all", "nvidia.com/mig-2g.48gb.me.all"},
		{"no media engines: the device plugin keeps the minus", "1g.24gb-me", "1g.24gb-me", "nvidia.com/mig-1g.24gb-me"},
		{"graphics", "4g.96gb.gfx", "4g.96gb+gfx", "nvidia.com/mig-4g.96gb.gfx"},
		{"a compute instance", "1c.3g.20gb", "1c.3g.20gb", "nvidia.com/mig-1c.3g.20gb"},
		{"a compute instance that fills its GPU instance", "1c.1g.5gb+me", "1g.5gb+me", "nvidia.com/mig-1g.5gb.me"},
		{"a profile that no GPU has", "0g.0gb", "0g.0gb", "nvidia.com/mig-0g.0gb"},
		{"attributes in any order", "1g.5gb+me,gfx", "1g.5gb+gfx,me", "nvidia.com/mig-1g.5gb.gfx,me"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := gpu.CanonicalProfile(tt.spelled)
			if got != tt.want || gpu.MIGResource(got) != tt.resource {
				t.Errorf("CanonicalProfile(%q) = %q, resource %s; want %q, %s", tt.spelled, got, gpu.MIGResource(got), tt.want, tt.resource)
			}
		})
	}
}

func TestParseProfileRefuses(t *testing.T) {
	for _, name := range []string{
		"", "bogus", "1g", "5gb", "1g.5", "1g.5gb ", " 1g.5gb", "g.5gb", "1g.gb", "xg.5gb", "1g.5gb+", "1g.5gb-", "1g.5gb+me,", "1g.5gb+me,me",
		"1g.5gb+me-gfx", "1g.5gb+1me", "1g.5gb+.me", "1g.5gb+me.", "1g.5gb+m e", "2c.1g.5gb", "0c.1g.5gb", "1c.2c.3g.20gb", "1c.1g", "-1g.5gb", "1g.99999999gb",
	} {
		if s, err := gpu.ParseProfile(name); err == nil {
			t.Errorf("ParseProfile(%q) = %+v, want an error", name, s)
		} else if gpu.CanonicalProfile(name) != name {
			t.Errorf("CanonicalProfile(%q) = %q", name, gpu.CanonicalProfile(name))
		}
	}
}
