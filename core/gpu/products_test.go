package gpu_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth.dev/berth/core/gpu"
)

func find(t testing.TB, name string) gpu.Product {
	t.Helper()
	p, ok := gpu.Find(name)
	if !ok {
		t.Fatalf("Find(%q) = false, want a product", name)
	}
	return p
}

// Every profile's name follows from its slices and memory, and its placements
// lie on the GPU.
func TestCatalogueIsConsistent(t *testing.T) {
	products := gpu.Products()
	if !slices.IsSortedFunc(products, func(a, b gpu.Product) int { return compare(a.Name, b.Name) }) {
		t.Error("Products() is not sorted by name")
	}
	for _, p := range products {
		for _, name := range []string{p.Name, p.LabelName()} {
			if got, ok := gpu.Find(name); !ok || got.Name != p.Name {
				t.Errorf("Find(%q) = %q, %v; want %q", name, got.Name, ok, p.Name)
			}
		}
		if (p.ComputeSlices > 0) != (len(p.Profiles) > 0) {
			t.Errorf("%s: %d compute slices and %d profiles", p.Name, p.ComputeSlices, len(p.Profiles))
		}
		for _, f := range p.Profiles {
			if want := gpu.ProfileName(f.Slices, f.MemoryMiB, p.MemoryMiB, false) + f.Suffix(); f.Name != want {
				t.Errorf("%s: profile %s should be named %s for its %d MiB", p.Name, f.Name, want, f.MemoryMiB)
			}
			for _, start := range f.Placements {
				if start < 0 || start+f.Size > p.MemorySlices {
					t.Errorf("%s: %s at %d leaves its %d memory slices", p.Name, f.Name, start, p.MemorySlices)
				}
			}
			if f.Max > len(f.Placements) || f.Max < 1 || f.Slices > p.ComputeSlices || f.Multiprocessors > p.Multiprocessors {
				t.Errorf("%s: %s is larger than the GPU: %+v", p.Name, f.Name, f)
			}
		}
	}
}

// The names and counts that NVIDIA's MIG User Guide and default configuration give
// for the products whose other figures are derived.
func TestProfilesOfProducts(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA H100 NVL":         "1g.12gb:7 1g.12gb+me:1 1g.24gb:4 2g.24gb:3 3g.47gb:2 4g.47gb:1 7g.94gb:1",
		"NVIDIA H200 NVL":         "1g.18gb:7 1g.18gb+me:1 1g.35gb:4 2g.35gb:3 3g.71gb:2 4g.71gb:1 7g.141gb:1",
		"NVIDIA GH200 480GB":      "1g.12gb:7 1g.12gb+me:1 1g.24gb:4 2g.24gb:3 3g.48gb:2 4g.48gb:1 7g.96gb:1",
		"NVIDIA GH200 144G HBM3e": "1g.18gb:7 1g.18gb+me:1 1g.36gb:4 2g.36gb:3 3g.72gb:2 4g.72gb:1 7g.144gb:1",
		"NVIDIA GB200":            "1g.23gb:7 1g.23gb+me:1 1g.47gb:4 2g.47gb:3 3g.93gb:2 4g.93gb:1 7g.186gb:1",
		"NVIDIA B300 SXM6 AC":     "1g.34gb:7 1g.34gb+me:1 1g.67gb:4 2g.67gb:3 3g.135gb:2 4g.135gb:1 7g.269gb:1",
		"NVIDIA GB300":            "1g.35gb:7 1g.35gb+me:1 1g.70gb:4 2g.70gb:3 3g.139gb:2 4g.139gb:1 7g.278gb:1",
		"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "1g.24gb:4 1g.24gb+gfx:4 1g.24gb+me:1 1g.24gb+me.all:1 1g.24gb-me:4 " +
			"2g.48gb:2 2g.48gb+gfx:2 2g.48gb+me.all:1 2g.48gb-me:2 4g.96gb:1 4g.96gb+gfx:1",
	} {
		var got []string
		for _, f := range find(t, name).Profiles {
			got = append(got, f.Name+":"+strconv.Itoa(f.Max))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("profiles of %s:\ngot  %s\nwant %s", name, got, want)
		}
	}
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

func TestLabelName(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB":   "NVIDIA-A100-SXM4-40GB",
		"NVIDIA H100 80GB HBM3":   "NVIDIA-H100-80GB-HBM3",
		"Tesla V100-SXM2-32GB":    "Tesla-V100-SXM2-32GB",
		"NVIDIA (R) X/Y+Z":        "NVIDIA-R-XYZ",
		"NVIDIA GeForce RTX 4090": "NVIDIA-GeForce-RTX-4090",
	} {
		if got := (gpu.Product{Name: name}).LabelName(); got != want {
			t.Errorf("LabelName of %q = %q, want %q", name, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	tests := []struct{ name, word, want string }{
		{"a model gives its first product", "A100", "NVIDIA A100 80GB PCIe"},
		{"words in any case and order", "a100-sxm4-80gb", "NVIDIA A100-SXM4-80GB"},
		{"the old maker's name", "NVIDIA-V100-SXM2-32GB", "Tesla V100-SXM2-32GB"},
		{"a slip of the fingers", "NVIDIA-A100-SMX4-40GB", "NVIDIA A100-SXM4-40GB"},
		{"a size that was never made", "NVIDIA H200 96GB", "NVIDIA H200"},
		{"nothing like it", "Radeon Instinct", ""},
		{"no name", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := gpu.Nearest(tt.word); got != tt.want {
				t.Errorf("Nearest(%q) = %q, want %q", tt.word, got, tt.want)
			}
		})
	}
}

func TestNearestWord(t *testing.T) {
	from := []string{"replicas", "rename", "resources", "up"}
	tests := []struct{ name, word, want string }{
		{"a letter missing", "replcas", "replicas"},
		{"two letters swapped", "erplicas", "replicas"},
		{"another case", "Replicas", "replicas"},
		{"a letter too many", "resourcess", "resources"},
		{"too far", "flags", ""},
		{"a short word is not near everything short", "xy", ""},
		{"a word of a megabyte", strings.Repeat("replicas", 1<<17), ""},
		{"no word", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := gpu.NearestWord(tt.word, from); got != tt.want {
				t.Errorf("NearestWord(%q) = %q, want %q", tt.word, got, tt.want)
			}
		})
	}
}

func TestShortName(t *testing.T) {
	for product, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB":   "A100-40GB",
		"NVIDIA-A100-SXM4-40GB":   "A100-40GB",
		"NVIDIA-H100-80GB-HBM3":   "H100-80GB",
		"Tesla-T4":                "T4",
		"NVIDIA-GeForce-RTX-4090": "RTX-4090",
		"":                        "",
	} {
		if got := gpu.ShortName(product); got != want {
			t.Errorf("%q is %q, want %q", product, got, want)
		}
	}
}
