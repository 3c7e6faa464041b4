package gpu_test

import (
	"slices"
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
			if want := gpu.ProfileName(f.Slices, f.MemoryMiB, p.MemoryMiB, f.Media()); f.Name != want {
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
