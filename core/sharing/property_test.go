package sharing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// twin is the slow, obvious ledger: a list of holdings, and every rule checked
// against all of it.
type twin struct {
	devices []sharing.Device
	gpus    []gpu.GPU
	held    []sharing.Holding
}

// available lists the healthy devices of a resource that could be given.
func (w *twin) available(resource string) []string {
	var out []string
	for _, d := range w.devices {
		if d.Resource == resource && d.Healthy && !w.touched(d) {
			out = append(out, d.ID)
		}
	}
	return out
}

func (w *twin) touched(d sharing.Device) bool {
	return slices.ContainsFunc(w.held, func(h sharing.Holding) bool {
		return h.Device.ID == d.ID || h.Device.Resource == sharing.ResourceMemory && h.Device.UUID == d.UUID
	})
}

// fullest lists the GPUs that still fit a share, those with the least left of
// what it says first.
func (w *twin) fullest(size sharing.ShareSize) []string {
	type room struct {
		uuid string
		left int64
	}
	var rooms []room
	for _, g := range w.gpus {
		milli, bytes, ok := w.left(g)
		takes, memory := size.Of(g.MemoryBytes)
		switch {
		case !ok || !g.Healthy || takes > milli || memory > bytes:
		case size.MilliGPU == 1000:
			rooms = append(rooms, room{g.UUID, 0}) // which of the empty ones is the business of Take
		case size.MemoryMiB > 0:
			rooms = append(rooms, room{g.UUID, bytes})
		default:
			rooms = append(rooms, room{g.UUID, milli})
		}
	}
	slices.SortStableFunc(rooms, func(a, b room) int { return int(min(1, max(-1, a.left-b.left))) })
	var out []string
	for _, r := range rooms {
		out = append(out, r.uuid)
	}
	return out
}

// left is what shares by size have left of a GPU; ok is false where it is not
// to be shared so, or held whole.
func (w *twin) left(g gpu.GPU) (milli, bytes int64, ok bool) {
	milli, bytes = 1000, g.MemoryBytes
	for _, h := range w.held {
		if h.Device.UUID != g.UUID {
			continue
		}
		if h.Device.Resource != sharing.ResourceMemory {
			return 0, 0, false
		}
		milli, bytes = milli-h.Device.MilliGPU, bytes-h.Device.MemoryBytes
	}
	return milli, bytes, !w.shared(g) && !g.MIGEnabled
}

// shared GPUs are offered as replicas, and cannot be shared by memory.
func (w *twin) shared(g gpu.GPU) bool {
	return slices.ContainsFunc(w.devices, func(d sharing.Device) bool { return d.UUID == g.UUID && d.ID != d.UUID })
}

// check holds what is true of every ledger at every moment.
func (w *twin) check(l *sharing.Ledger) error {
	held := l.Held()
	if len(held) != len(w.held) {
		return fmt.Errorf("%d held, the twin has %d", len(held), len(w.held))
	}
	ids, milli, memory := map[string]string{}, map[int]int64{}, map[int]int64{}
	for _, h := range held {
		d := h.Device
		if other, twice := ids[d.ID]; twice {
			return fmt.Errorf("%s is held by %s and %s", d.ID, h.Owner, other)
		}
		ids[d.ID] = h.Owner
		milli[d.GPU] += d.MilliGPU
		memory[d.GPU] += d.MemoryBytes
		if !slices.ContainsFunc(w.held, func(o sharing.Holding) bool { return o.Owner == h.Owner && o.Device.ID == d.ID }) {
			return fmt.Errorf("%s is held by %s, not so in the twin", d.ID, h.Owner)
		}
	}
	for _, g := range w.gpus {
		if milli[g.Index] > 1000 {
			return fmt.Errorf("GPU %d gives %d milli-GPU", g.Index, milli[g.Index])
		}
		sliced := slices.ContainsFunc(w.devices, func(d sharing.Device) bool { return d.GPU == g.Index && d.ID != d.UUID })
		if memory[g.Index] > g.MemoryBytes && !sliced {
			return fmt.Errorf("GPU %d gives %d bytes of %d", g.Index, memory[g.Index], g.MemoryBytes)
		}
	}
	return nil
}

// random draws a node and its sharing.
func random(t *testing.T, rng *rand.Rand) ([]gpu.GPU, gpu.Sharing) {
	profiles := [][]string{nil, {"1g.5gb", "1g.5gb", "2g.10gb"}, {"3g.20gb", "3g.20gb"}}
	s := gpu.Sharing{Packed: rng.IntN(2) == 0, RenameByDefault: rng.IntN(4) == 0}
	cut := profiles[rng.IntN(3)]
	if len(cut) > 0 {
		s.MIGStrategy = gpu.MIGMixed
	}
	if rng.IntN(2) == 0 {
		s.Strategy = gpu.SharingTimeSlicing
		s.Replicas = map[string]int{"nvidia.com/gpu": 2 + rng.IntN(3), "nvidia.com/mig-1g.5gb": 2}
	}
	gpus := append(node(t, a100, 1+rng.IntN(4), cut...), gpu.New("n2", must("Tesla T4"), 2)...)
	only := []string{}
	for i := range gpus {
		gpus[i].Index = i
		gpus[i].Healthy = rng.IntN(6) > 0
		if rng.IntN(2) == 0 {
			only = append(only, []string{strconv.Itoa(i), gpus[i].UUID}[rng.IntN(2)])
		}
	}
	// Some GPUs shared and others whole have different names.
	if s.Strategy != "" && rng.IntN(2) == 0 {
		s.RenameByDefault, s.Devices = true, map[string][]string{"nvidia.com/gpu": only, "nvidia.com/mig-1g.5gb": {"0:0"}}
	}
	return gpus, s
}

func must(name string) gpu.Product {
	p, _ := gpu.Find(name)
	return p
}

// One sequence of operations, on the ledger and its twin.
func operate(t *testing.T, rng *rand.Rand) {
	gpus, s := random(t, rng)
	l := ledger(t, gpus, s)
	devs := l.Devices()
	w := &twin{devices: devs, gpus: gpus}
	resources := []string{"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"}
	for step := range 60 {
		owner := fmt.Sprintf("pod-%d", rng.IntN(8))
		switch rng.IntN(5) {
		case 0:
			l.Release(owner)
			w.held = slices.DeleteFunc(w.held, func(h sharing.Holding) bool { return h.Owner == owner })
		case 1:
			size, n := randomSize(rng), 1+rng.IntN(2)
			want := w.fullest(size)
			got, err := l.TakeShares(owner, "some", size, n)
			if (err == nil) != (len(want) >= n) || err == nil && len(got) != n {
				t.Fatalf("step %d: TakeShares(%v, %d) = %v, %v; the twin has %v", step, size, n, got, err, want)
			}
			for i, d := range got {
				if at := slices.Index(want, d.UUID); at < 0 || size.MilliGPU < 1000 && at != i {
					t.Fatalf("step %d: TakeShares(%v, %d) = %v; the twin would take of %v", step, size, n, got, want)
				}
				w.held = append(w.held, sharing.Holding{Owner: owner, Device: d})
			}
		default:
			resource, n := resources[rng.IntN(len(resources))], 1+rng.IntN(3)
			free := w.available(resource)
			got, err := l.Take(owner, resource, n)
			if (err == nil) != (len(free) >= n) || err == nil && len(got) != n {
				t.Fatalf("step %d: Take(%s, %d) = %v, %v; the twin has %v", step, resource, n, got, err, free)
			}
			for _, d := range got {
				if !slices.Contains(free, d.ID) {
					t.Fatalf("step %d: Take(%s, %d) gave %s, which is not free", step, resource, n, d.ID)
				}
				w.held = append(w.held, sharing.Holding{Owner: owner, Device: d})
			}
		}
		if err := w.check(l); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
	restart(t, l, gpus, s)
}

// A ledger restored from device IDs alone equals the one before, and so does
// one that is reset to what it was.
func restart(t *testing.T, l *sharing.Ledger, gpus []gpu.GPU, s gpu.Sharing) {
	t.Helper()
	want := l.Held()
	fresh := ledger(t, gpus, s)
	for _, h := range want {
		if err := fresh.Restore(h.Owner, []string{h.Device.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, fresh.Held()); diff != "" {
		t.Fatalf("after Restore (-want +got):\n%s", diff)
	}
	if gone, err := l.Reset(gpus, s); err != nil || len(gone) > 0 {
		t.Fatalf("Reset to the same: gone %v, %v", gone, err)
	}
	if diff := cmp.Diff(want, l.Held()); diff != "" {
		t.Fatalf("after Reset (-want +got):\n%s", diff)
	}
}

func TestLedgerAgreesWithItsTwin(t *testing.T) {
	for seed := range uint64(400) {
		operate(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

func FuzzLedger(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { operate(t, rand.New(rand.NewPCG(a, b))) })
}
