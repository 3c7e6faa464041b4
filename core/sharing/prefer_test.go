package sharing_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// What a kubelet is advised to pick is what the ledger would give.
func TestPreferChoosesAsTake(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		gpus, s := random(t, rng)
		l := ledger(t, gpus, s)
		resources := slices.Sorted(maps.Keys(sharing.Capacity(l.Devices())))
		resource := resources[rng.IntN(len(resources))]
		for owner := range 3 {
			_, _ = l.Take(string(rune('a'+owner)), resource, 1+rng.IntN(2))
		}
		var held, free []sharing.Device
		for _, h := range l.Held() {
			held = append(held, h.Device)
		}
		for _, d := range l.Devices() {
			if d.Resource == resource && d.Healthy && !slices.ContainsFunc(held, func(h sharing.Device) bool { return h.ID == d.ID }) {
				free = append(free, d)
			}
		}
		n := 1 + rng.IntN(3)
		got := sharing.Prefer(free, nil, held, n, s.Packed)
		want, err := l.Take("asks", resource, n)
		if err != nil {
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: Prefer(%d of %s) (-Take +Prefer):\n%s", seed, n, resource, diff)
		}
	}
}

func TestPreferGoesWithWhatMustBeThere(t *testing.T) {
	gpus := gpu.New("n1", must(a100), 8)
	for i := range gpus {
		gpus[i].Clique, gpus[i].NUMANode = 1+i/4, i/2
	}
	devices, err := sharing.Devices(gpus, gpu.Sharing{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		must  []int
		n     int
		avail []int
		want  []int
	}{
		{"the neighbor on the NUMA node first", []int{5}, 2, []int{0, 1, 4, 5, 6, 7}, []int{5, 4}},
		{"then the clique", []int{5}, 4, []int{0, 1, 4, 5, 6, 7}, []int{5, 4, 6, 7}},
		{"then the rest by index", []int{5}, 3, []int{0, 1, 5}, []int{5, 0, 1}},
		{"no more than there are", []int{5}, 3, []int{5}, []int{5}},
		{"nothing beside what must be", []int{2, 3}, 2, []int{0, 1, 2, 3}, []int{2, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pick := func(indexes []int) (out []sharing.Device) {
				for _, i := range indexes {
					out = append(out, devices[i])
				}
				return out
			}
			var got []int
			for _, d := range sharing.Prefer(pick(tt.avail), pick(tt.must), nil, tt.n, false) {
				got = append(got, d.GPU)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Prefer(-want +got):\n%s", diff)
			}
		})
	}
}
