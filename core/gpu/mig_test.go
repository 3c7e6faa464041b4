package gpu_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
)

func TestLayout(t *testing.T) {
	type at struct {
		Profile   string
		Start, GI int
	}
	tests := []struct {
		name, product string
		profiles      []string
		want          []at
	}{
		{
			// As nvidia-smi mig -lgi shows this geometry on an A100: 3g is
			// instance 2 at 0, 2g 3 at 4, 1g 9 at 6.
			name: "three sizes side by side", product: "NVIDIA A100-SXM4-40GB",
			profiles: []string{"1g.5gb", "3g.20gb", "2g.10gb"},
			want:     []at{{"3g.20gb", 0, 2}, {"2g.10gb", 4, 3}, {"1g.5gb", 6, 9}},
		},
		{
			name: "seven of the smallest", product: "NVIDIA H100 80GB HBM3",
			profiles: slices.Repeat([]string{"1g.10gb"}, 7),
			want: []at{
				{"1g.10gb", 0, 11},
				{"1g.10gb", 1, 12},
				{"1g.10gb", 2, 13},
				{"1g.10gb", 3, 14},
				{"1g.10gb", 4, 7},
				{"1g.10gb", 5, 8},
				{"1g.10gb", 6, 9},
			},
		},
		{
			// 3g can only start at 0 or 4, and 4g only at 0.
			name: "the larger one takes its only place", product: "NVIDIA H200",
			profiles: []string{"3g.71gb", "4g.71gb"},
			want:     []at{{"4g.71gb", 0, 2}, {"3g.71gb", 4, 1}},
		},
		{
			name: "media extensions beside plain profiles", product: "NVIDIA A30",
			profiles: []string{"1g.6gb", "1g.6gb+me", "2g.12gb"},
			want:     []at{{"2g.12gb", 0, 1}, {"1g.6gb", 2, 5}, {"1g.6gb+me", 3, 6}},
		},
		{
			name: "double memory", product: "NVIDIA B200",
			profiles: slices.Repeat([]string{"1g.45gb"}, 4),
			want:     []at{{"1g.45gb", 0, 5}, {"1g.45gb", 2, 6}, {"1g.45gb", 4, 3}, {"1g.45gb", 6, 4}},
		},
		{
			// nvidia-smi mig -lgi of this geometry: 2g is instance 1, 1g 5 and 6.
			name: "profiles with and without media engines", product: "NVIDIA RTX PRO 6000 Blackwell Server Edition",
			profiles: []string{"1g.24gb-me", "2g.48gb+gfx", "1g.24gb"},
			want:     []at{{"2g.48gb+gfx", 0, 1}, {"1g.24gb", 2, 5}, {"1g.24gb-me", 3, 6}},
		},
		{
			name: "all of the media engines beside instances without any", product: "NVIDIA RTX PRO 6000 Blackwell Server Edition",
			profiles: []string{"1g.24gb-me", "1g.24gb.me.all", "2g.48gb-me"},
			want:     []at{{"2g.48gb-me", 0, 1}, {"1g.24gb+me.all", 2, 5}, {"1g.24gb-me", 3, 6}},
		},
		{
			// 3 fill the first 3g, the fourth needs another.
			name: "compute instances share a GPU instance", product: "NVIDIA A100-SXM4-40GB",
			profiles: []string{"1c.3g.20gb", "2c.3g.20gb", "1c.3g.20gb"},
			want:     []at{{"2c.3g.20gb", 0, 2}, {"1c.3g.20gb", 0, 2}, {"1c.3g.20gb", 4, 1}},
		},
		{
			name: "a compute instance that fills its GPU instance is the plain profile", product: "NVIDIA A100-SXM4-40GB",
			profiles: []string{"3c.3g.20gb", "1c.1g.5gb+me"},
			want:     []at{{"3g.20gb", 0, 2}, {"1g.5gb+me", 4, 7}},
		},
		{name: "nothing", product: "NVIDIA A30"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := gpu.Layout(find(t, tt.product), tt.profiles)
			if err != nil {
				t.Fatal(err)
			}
			var have []at
			for _, d := range got {
				have = append(have, at{d.Profile, d.Start, d.GI})
			}
			if diff := cmp.Diff(tt.want, have); diff != "" {
				t.Errorf("Layout(%s, %v) (-want +got):\n%s", tt.product, tt.profiles, diff)
			}
		})
	}
}

func TestLayoutRefuses(t *testing.T) {
	const a100 = "NVIDIA A100-SXM4-40GB"
	tests := []struct {
		name, product string
		profiles      []string
		want          string
	}{
		{
			"a profile of another product", "NVIDIA H100 80GB HBM3",
			[]string{"1g.5gb"},
			"profile 1g.5gb: not a profile of NVIDIA H100 80GB HBM3; the nearest is 1g.10gb",
		},
		{
			"a size that A30 does not have", "NVIDIA A30",
			[]string{"3g.20gb"},
			"profile 3g.20gb: not a profile of NVIDIA A30; the nearest is 4g.24gb",
		},
		{
			"no profile at all", a100,
			[]string{"half"},
			"profile half: not a profile of NVIDIA A100-SXM4-40GB; it has 1g.5gb, 1g.5gb+me, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb",
		},
		{
			"a product without MIG", "Tesla T4",
			[]string{"1g.5gb"},
			"profile 1g.5gb: Tesla T4 has no MIG; A100, A30, H100, H200, GH200, B200, B300 and RTX PRO 6000 Blackwell have",
		},
		{
			"more than one GPU holds", a100, slices.Repeat([]string{"3g.20gb"}, 3),
			"profile 3g.20gb: 3 asked, but one NVIDIA A100-SXM4-40GB holds at most 2; ask for 2",
		},
		{
			"no room beside the others", a100,
			[]string{"2g.10gb", "4g.20gb", "2g.10gb"},
			"profile 2g.10gb: no placement left on one NVIDIA A100-SXM4-40GB beside 1x 4g.20gb; at most 1 of it fits there",
		},
		{
			"no room at all", a100,
			[]string{"7g.40gb", "1g.5gb"},
			"profile 1g.5gb: no placement left on one NVIDIA A100-SXM4-40GB beside 1x 7g.40gb; at most 0 of it fit there",
		},
		{
			"one JPEG and OFA engine for two", "NVIDIA A30",
			[]string{"2g.12gb+me", "1g.6gb+me"},
			"profile 1g.6gb+me: no placement left on one NVIDIA A30 beside 1x 2g.12gb+me; at most 0 of it fit there",
		},
		{
			"media engines that another instance has all of", "NVIDIA RTX PRO 6000 Blackwell Server Edition",
			[]string{"1g.24gb+me.all", "1g.24gb"},
			"profile 1g.24gb+me.all: no placement left on one NVIDIA RTX PRO 6000 Blackwell Server Edition beside 1x 1g.24gb; at most 0 of it fit there",
		},
		{
			"a product with other attributes", "NVIDIA H100 80GB HBM3",
			[]string{"1g.24gb-me"},
			"profile 1g.24gb-me: not a profile of NVIDIA H100 80GB HBM3; the nearest is 1g.20gb",
		},
		{
			"a compute instance of a size that there is not", a100,
			[]string{"3c.4g.20gb"},
			"profile 3c.4g.20gb: no compute instance of 3 slices in a 4g.20gb; there are those of [1 2 4]",
		},
		{
			"more compute instances than GPU instances hold", a100, slices.Repeat([]string{"1c.3g.20gb"}, 7),
			"profile 3g.20gb: 3 asked, but one NVIDIA A100-SXM4-40GB holds at most 2; ask for 2",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := gpu.Layout(find(t, tt.product), tt.profiles)
			if err == nil || err.Error() != tt.want {
				t.Errorf("Layout(%s, %v): %v\nwant %s", tt.product, tt.profiles, err, tt.want)
			}
		})
	}
}

// mediaGoesRound pairs every device with every other: all of the media engines in
// one leave none for another.
func mediaGoesRound(profiles []string) bool {
	for i, a := range profiles {
		for j, b := range profiles {
			if i != j && strings.Contains(a, "me.all") && !strings.Contains(b, "-me") {
				return false
			}
		}
	}
	return true
}

// feasible is Layout's slow twin: every placement of every device, in the
// order given.
func feasible(p gpu.Product, profiles []string) bool {
	count := map[string]int{}
	computeSlices, ofa, ofaMost := 0, 0, 0
	for _, f := range p.Profiles {
		ofaMost = max(ofaMost, f.OFA)
	}
	var try func(i int, taken [8]bool) bool
	try = func(i int, taken [8]bool) bool {
		if i == len(profiles) {
			return true
		}
		f, _ := p.Profile(profiles[i])
	placements:
		for _, start := range f.Placements {
			next := taken
			for s := start; s < start+f.Size; s++ {
				if taken[s] {
					continue placements
				}
				next[s] = true
			}
			if try(i+1, next) {
				return true
			}
		}
		return false
	}
	for _, name := range profiles {
		f, _ := p.Profile(name)
		count[name]++
		computeSlices += f.Slices
		ofa += f.OFA
		if count[name] > f.Max {
			return false
		}
	}
	return computeSlices <= p.ComputeSlices && ofa <= ofaMost && mediaGoesRound(profiles) && try(0, [8]bool{})
}

func checkLayout(t *testing.T, p gpu.Product, profiles []string) {
	t.Helper()
	got, err := gpu.Layout(p, profiles)
	if want := feasible(p, profiles); (err == nil) != want {
		t.Fatalf("Layout(%s, %v): %v; the twin says %v", p.Name, profiles, err, want)
	}
	if err != nil {
		if !strings.Contains(err.Error(), "profile ") {
			t.Fatalf("Layout(%s, %v): %v; names no profile", p.Name, profiles, err)
		}
		return
	}
	shuffled := slices.Clone(profiles)
	slices.Reverse(shuffled)
	if again, _ := gpu.Layout(p, shuffled); !cmp.Equal(got, again) {
		t.Fatalf("Layout(%s) depends on the order of %v", p.Name, profiles)
	}
	end, computeSlices := 0, 0
	instances := map[int]bool{}
	var names []string
	for _, d := range got {
		f, ok := p.Profile(d.Profile)
		if !ok || !slices.Contains(f.Placements, d.Start) || d.Start < end || d.Start+f.Size > p.MemorySlices || instances[d.GI] {
			t.Fatalf("Layout(%s, %v) = %+v: device %+v is illegal", p.Name, profiles, got, d)
		}
		end, computeSlices, instances[d.GI] = d.Start+f.Size, computeSlices+d.Slices, true
		names = append(names, d.Profile)
	}
	slices.Sort(names)
	slices.Sort(shuffled)
	if computeSlices > p.ComputeSlices || !slices.Equal(names, shuffled) {
		t.Fatalf("Layout(%s, %v) = %v, %d compute slices", p.Name, profiles, names, computeSlices)
	}
}

func TestLayoutAgreesWithItsTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range gpu.Products() {
		if len(p.Profiles) == 0 {
			continue
		}
		for range 2000 {
			var profiles []string
			for range rng.IntN(9) {
				// Squared, so that small profiles come more often: large ones soon fill the GPU.
				i := rng.IntN(len(p.Profiles)) * rng.IntN(len(p.Profiles)) / len(p.Profiles)
				profiles = append(profiles, p.Profiles[i].Name)
			}
			checkLayout(t, p, profiles)
		}
	}
}

func FuzzLayout(f *testing.F) {
	f.Add(uint8(0), []byte{0, 1, 2})
	f.Fuzz(func(t *testing.T, product uint8, picks []byte) {
		products := slices.DeleteFunc(gpu.Products(), func(p gpu.Product) bool { return len(p.Profiles) == 0 })
		p := products[int(product)%len(products)]
		var profiles []string
		for _, b := range picks[:min(len(picks), 9)] {
			profiles = append(profiles, p.Profiles[int(b)%len(p.Profiles)].Name)
		}
		checkLayout(t, p, profiles)
	})
}
