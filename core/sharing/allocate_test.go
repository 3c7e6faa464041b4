package sharing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

func twoT4(t *testing.T, s gpu.Sharing) *sharing.Ledger {
	t.Helper()
	p, ok := gpu.Find("Tesla T4")
	if !ok {
		t.Fatal("no Tesla T4")
	}
	l, err := sharing.NewLedger(gpu.New("n", p, 2), s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func whole(n int64) []sharing.Ask { return []sharing.Ask{{Resource: gpu.ResourceGPU, Count: n}} }

func memory(gib int64) []sharing.Ask {
	return []sharing.Ask{{Resource: sharing.ResourceMemory, Count: gib}}
}

// parts asks for shares by milli-GPUs.
func parts(count, milli int64) []sharing.Ask {
	return []sharing.Ask{{Resource: "gpu-fraction", Count: count, Share: sharing.ShareSize{MilliGPU: milli}}}
}

func TestCommit(t *testing.T) {
	shared := gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{gpu.ResourceGPU: 2}}
	for _, tt := range []struct {
		name    string
		sharing gpu.Sharing
		parts   []sharing.Part
		named   map[string][]int // numbers of GPUs
		want    string           // IDs with G0 and G1 for the UUIDs, or an error
	}{
		{"gives the GPU that is named, not the first", gpu.Sharing{}, []sharing.Part{{Name: "a", Asks: whole(1)}}, map[string][]int{"a": {1}}, "[G1]"},
		{"gives two parts what each is named", gpu.Sharing{}, []sharing.Part{{Name: "a", Asks: whole(1)}, {Name: "b", Asks: whole(1)}}, map[string][]int{"a": {1}, "b": {0}}, "[G1] [G0]"},
		{"refuses one GPU for two parts", gpu.Sharing{}, []sharing.Part{{Name: "a", Asks: whole(1)}, {Name: "b", Asks: whole(1)}}, map[string][]int{"a": {1}, "b": {1}}, "device G1 of nvidia.com/gpu: it is held by p"},
		{"gives again what was handed on", gpu.Sharing{}, []sharing.Part{{Name: "a", HandsOn: true, Asks: whole(1)}, {Name: "b", Asks: whole(2)}}, map[string][]int{"a": {1}, "b": {1, 0}}, "[G1] [G1 G0]"},
		{"gives two shares of one GPU where both are named on it", shared, []sharing.Part{{Name: "a", Asks: whole(2)}}, map[string][]int{"a": {1, 1}}, "[G1::0 G1::1]"},
		{"refuses a third share where there are two", shared, []sharing.Part{{Name: "a", Asks: whole(3)}}, map[string][]int{"a": {1, 1, 1}}, "device G1 of nvidia.com/gpu: it is held by p"},
		{"gives memory of the GPU that is named", gpu.Sharing{}, []sharing.Part{{Name: "a", Asks: memory(6)}, {Name: "b", Asks: memory(6)}}, map[string][]int{"a": {1}, "b": {1}}, "[G1::mem-6-0] [G1::mem-6-1]"},
		{"refuses memory beyond the GPU's", gpu.Sharing{}, []sharing.Part{{Name: "a", Asks: memory(9)}, {Name: "b", Asks: memory(9)}}, map[string][]int{"a": {1}, "b": {1}}, "device G1 of nvidia.com/gpu-memory: its GPU has 6 GiB left of 15 GiB"},
		{"gives halves of the GPU that is named", gpu.Sharing{}, []sharing.Part{{Name: "a", Asks: parts(1, 500)}, {Name: "b", Asks: parts(1, 500)}}, map[string][]int{"a": {1}, "b": {1}}, "[G1::milli-500-0] [G1::milli-500-1]"},
		{"gives shares of several GPUs", gpu.Sharing{}, []sharing.Part{{Name: "a", Asks: parts(2, 300)}}, map[string][]int{"a": {1, 0}}, "[G1::milli-300-0 G0::milli-300-0]"},
		{"refuses two shares of one GPU for one ask", gpu.Sharing{}, []sharing.Part{{Name: "a", Asks: parts(2, 300)}}, map[string][]int{"a": {1, 1}}, "device G1 of gpu-fraction: it is named twice for a, whose shares are each of another GPU"},
		{"refuses a third half", gpu.Sharing{}, []sharing.Part{{Name: "a", Asks: parts(1, 500)}, {Name: "b", Asks: parts(1, 600)}}, map[string][]int{"a": {1}, "b": {1}}, "device G1 of gpu-fraction: its GPU has 7680 MiB left of 15 GiB"},
		{"refuses compute beyond the GPU's", gpu.Sharing{}, []sharing.Part{
			{Name: "a", Asks: []sharing.Ask{{Resource: "nvidia.com/gpumem", Count: 1, Share: sharing.ShareSize{MilliGPU: 900, MemoryMiB: 100}}}}, {Name: "b", Asks: memory(2)},
		}, map[string][]int{"a": {1}, "b": {1}}, "device G1 of nvidia.com/gpu-memory: its GPU has 100 milli-GPUs left of 1000"},
		{"gives a share of an init container again to one that asks for less", gpu.Sharing{}, []sharing.Part{{Name: "a", HandsOn: true, Asks: parts(1, 600)}, {Name: "b", Asks: parts(1, 500)}}, map[string][]int{"a": {1}, "b": {1}}, "[G1::milli-600-0] [G1::milli-600-0]"},
		{"refuses a whole GPU beside a share of it", gpu.Sharing{}, []sharing.Part{{Name: "a", Asks: memory(1)}, {Name: "b", Asks: whole(1)}}, map[string][]int{"a": {0}, "b": {0}}, "device G0 of nvidia.com/gpu: its memory is held by p"},
		{"refuses fewer devices than are asked for", gpu.Sharing{}, []sharing.Part{{Name: "a", Asks: whole(2)}}, map[string][]int{"a": {0}}, "1 devices are named for a, which asks for 2"},
		{"refuses devices for a part that is not there", gpu.Sharing{}, []sharing.Part{{Name: "a", Asks: whole(1)}}, map[string][]int{"a": {0}, "b": {1}}, "devices are named for b, which is not there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := twoT4(t, tt.sharing)
			uuids := []string{uuidOf(l, 0), uuidOf(l, 1)}
			named := map[string][]sharing.Named{}
			for part, list := range tt.named {
				for _, i := range list {
					named[part] = append(named[part], sharing.Named{UUID: uuids[i]})
				}
			}
			got, err := l.Commit("p", tt.parts, named)
			text := fmt.Sprint(err)
			if err == nil {
				var lists []string
				for _, devices := range got {
					var ids []string
					for _, d := range devices {
						ids = append(ids, d.ID)
					}
					lists = append(lists, fmt.Sprint(ids))
				}
				text = strings.Join(lists, " ")
			} else if len(l.Held()) > 0 {
				t.Errorf("after an error %d devices are held", len(l.Held()))
			}
			text = strings.NewReplacer(uuids[0], "G0", uuids[1], "G1").Replace(text)
			if diff := cmp.Diff(tt.want, text); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestAllocateAsksForMemoryOfAWholeGPU(t *testing.T) {
	l := twoT4(t, gpu.Sharing{})
	if _, err := l.Allocate("p", []sharing.Part{{Name: "a", Asks: []sharing.Ask{{Resource: gpu.ResourceGPU, Count: 1, LeastGiB: 15}}}}); err != nil {
		t.Errorf("15 GiB of a T4: %v", err)
	}
	if _, err := l.Allocate("q", []sharing.Part{{Name: "a", Asks: []sharing.Ask{{Resource: gpu.ResourceGPU, Count: 1, LeastGiB: 17}}}}); err == nil {
		t.Error("17 GiB of a T4 were given")
	}
}

func uuidOf(l *sharing.Ledger, gpu int) string {
	for _, d := range l.Devices() {
		if d.GPU == gpu {
			return d.UUID
		}
	}
	return ""
}

// TestWhatIsAllocatedCanBeCommitted chooses devices on one ledger and commits
// them by name on another, as a scheduler and a node do, with random owners
// coming and going: the node never refuses, and no GPU is ever held beyond its
// size on either.
func TestWhatIsAllocatedCanBeCommitted(t *testing.T) {
	for seed := range uint64(200) {
		chance := rand.New(rand.NewPCG(seed, 7))
		s := gpu.Sharing{}
		if seed%3 == 1 {
			s = gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{gpu.ResourceGPU: 2 + chance.IntN(4)}}
		}
		chooser, node := twoT4(t, s), twoT4(t, s)
		var owners []string
		for step := range 200 {
			if len(owners) > 0 && chance.IntN(3) == 0 {
				i := chance.IntN(len(owners))
				chooser.Release(owners[i])
				node.Release(owners[i])
				owners = slices.Delete(owners, i, i+1)
				continue
			}
			owner := fmt.Sprint("p", step)
			parts := randomParts(chance)
			got, err := chooser.Allocate(owner, parts)
			if err != nil {
				continue
			}
			named := map[string][]sharing.Named{}
			for i := range parts {
				named[parts[i].Name] = sharing.NamedOf(got[i])
			}
			if _, err := node.Commit(owner, parts, named); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			owners = append(owners, owner)
			for _, l := range []*sharing.Ledger{chooser, node} {
				if over := overcommitted(l); over != "" {
					t.Fatalf("seed %d, step %d: %s", seed, step, over)
				}
			}
		}
	}
}

func randomParts(chance *rand.Rand) []sharing.Part {
	var out []sharing.Part
	for i := range 1 + chance.IntN(3) {
		asks := whole(int64(1 + chance.IntN(2)))
		switch chance.IntN(5) {
		case 0, 1:
			asks = memory(int64(1 + chance.IntN(16)))
		case 2, 3:
			asks = []sharing.Ask{{Resource: "some", Count: int64(1 + chance.IntN(2)), Share: randomSize(chance)}}
		}
		if chance.IntN(4) == 0 {
			asks = append(asks, whole(1)...)
		}
		out = append(out, sharing.Part{Name: fmt.Sprint("c", i), HandsOn: chance.IntN(3) == 0, Asks: asks})
	}
	return out
}

// randomSize draws a size of a share: round parts, odd ones, and both.
func randomSize(chance *rand.Rand) sharing.ShareSize {
	var s sharing.ShareSize
	for s == (sharing.ShareSize{}) {
		if chance.IntN(2) == 0 {
			s.MilliGPU = []int64{250, 333, 500, 1000, 1 + chance.Int64N(1000)}[chance.IntN(5)]
		}
		if chance.IntN(3) == 0 {
			s.MemoryMiB = []int64{1024, 3000, 1 + chance.Int64N(20000)}[chance.IntN(3)]
		}
	}
	return s
}

// overcommitted says which GPU has more held than it is, from the list of
// holdings alone.
func overcommitted(l *sharing.Ledger) string {
	milli, bySize, whole := map[string]int64{}, map[string]int64{}, map[string]bool{}
	for _, h := range l.Held() {
		milli[h.Device.UUID] += h.Device.MilliGPU
		if h.Device.Resource == sharing.ResourceMemory {
			bySize[h.Device.UUID] += h.Device.MemoryBytes
		}
		whole[h.Device.UUID] = whole[h.Device.UUID] || h.Device.ID == h.Device.UUID
	}
	for uuid, n := range milli {
		if n > 1000 || bySize[uuid] > 15*sharing.GiB || whole[uuid] && bySize[uuid] > 0 {
			return fmt.Sprintf("GPU %s: %d milli-GPUs and %d bytes are held, whole: %v", uuid, n, bySize[uuid], whole[uuid])
		}
	}
	return ""
}
