package sharing_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

func TestAShareTakesItsPartOfBoth(t *testing.T) {
	for _, tt := range []struct {
		name string
		size sharing.ShareSize
		mib  int64  // of the GPU
		want string // milli-GPUs and bytes
	}{
		// 15360 MiB / 2.
		{"half a GPU has half its memory", sharing.ShareSize{MilliGPU: 500}, 15360, "500 8053063680"},
		// 15360 MiB * 0.333 = 5114.88 MiB.
		{"a third is cut to a byte", sharing.ShareSize{MilliGPU: 333}, 15360, "333 5363340410"},
		// 1000 * 3000 / 15360 = 195.3.
		{"memory has its part of the compute, rounded down", sharing.ShareSize{MemoryMiB: 3000}, 15360, "195 3145728000"},
		{"compute that is asked for beside memory counts where it is more", sharing.ShareSize{MilliGPU: 300, MemoryMiB: 3000}, 15360, "300 3145728000"},
		{"memory counts where its part of the compute is more", sharing.ShareSize{MilliGPU: 100, MemoryMiB: 3000}, 15360, "195 3145728000"},
		{"a crumb of memory is one milli-GPU", sharing.ShareSize{MemoryMiB: 1}, 15360, "1 1048576"},
		{"of a GPU whose memory is not known, memory takes all", sharing.ShareSize{MemoryMiB: 1}, 0, "1000 1048576"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			milli, bytes := tt.size.Of(tt.mib << 20)
			if got := fmt.Sprint(milli, " ", bytes); got != tt.want {
				t.Errorf("%v.Of(%d MiB) = %s, want %s", tt.size, tt.mib, got, tt.want)
			}
		})
	}
}

func TestALedgerAndASnapshotRoundAlike(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		total := chance.Int64N(200 << 30)
		milli, bytes := sharing.ShareSize{MilliGPU: 1 + chance.Int64N(1000)}.Of(total)
		if want := cluster.ShareBytes(int32(milli), total); bytes != want {
			t.Fatalf("%d milli-GPUs of %d bytes: %d, package cluster says %d", milli, total, bytes, want)
		}
		milli, bytes = sharing.ShareSize{MemoryMiB: 1 + chance.Int64N(200<<10)}.Of(total)
		if want := cluster.ShareMilli(bytes, total); milli != int64(want) {
			t.Fatalf("%d of %d bytes: %d milli-GPUs, package cluster says %d", bytes, total, milli, want)
		}
	}
}

func TestSizeIDsReadBack(t *testing.T) {
	for _, tt := range []struct {
		size sharing.ShareSize
		id   string
	}{
		{sharing.ShareSize{MemoryMiB: 6 * 1024}, "GPU-1::mem-6-2"},
		{sharing.ShareSize{MemoryMiB: 3000}, "GPU-1::mem-3000Mi-2"},
		{sharing.ShareSize{MilliGPU: 500}, "GPU-1::milli-500-2"},
		{sharing.ShareSize{MilliGPU: 500, MemoryMiB: 3000}, "GPU-1::milli-500-mem-3000Mi-2"},
		{sharing.ShareSize{MilliGPU: 1, MemoryMiB: 1024}, "GPU-1::milli-1-mem-1-2"},
	} {
		id := sharing.SizeID("GPU-1", tt.size, 2)
		uuid, size, ok := sharing.ParseSizeID(id)
		if id != tt.id || uuid != "GPU-1" || size != tt.size || !ok {
			t.Errorf("%v is %s, which reads as %v of %s, %v; want %s", tt.size, id, size, uuid, ok, tt.id)
		}
		if uuid, replica, _ := sharing.ParseID(id); uuid != "GPU-1" || replica != -1 {
			t.Errorf("ParseID(%s) = %s, %d", id, uuid, replica)
		}
	}
	for _, id := range []string{"GPU-1", "GPU-1::2", "GPU-1::milli-0-0", "GPU-1::milli-1001-0", "GPU-1::milli--5-0", "GPU-1::mem-x-0", "GPU-1::milli-x", "GPU-1::"} {
		if uuid, size, ok := sharing.ParseSizeID(id); ok || uuid != id {
			t.Errorf("ParseSizeID(%q) = %q, %v, %v; want no share", id, uuid, size, ok)
		}
	}
}

func FuzzParseSizeID(f *testing.F) {
	f.Add("GPU-1::milli-500-mem-3000Mi-0")
	f.Fuzz(func(t *testing.T, id string) {
		uuid, size, ok := sharing.ParseSizeID(id)
		if !ok {
			return
		}
		if _, again, ok := sharing.ParseSizeID(sharing.SizeID(uuid, size, 0)); !ok || again != size {
			t.Errorf("%q is %v of %q, and its own ID is %v", id, size, uuid, again)
		}
	})
}

func TestTakeShares(t *testing.T) {
	half, third := sharing.ShareSize{MilliGPU: 500}, sharing.ShareSize{MilliGPU: 333}
	type step struct {
		owner string
		size  sharing.ShareSize
		n     int
	}
	for _, tt := range []struct {
		name  string
		steps []step
		want  string // GPU:share of the last, or its error
	}{
		{"halves fill one GPU before the next", []step{{"a", half, 1}, {"b", half, 1}, {"c", half, 1}}, "1:milli-500-0"},
		{"three thirds are one GPU", []step{{"a", third, 1}, {"b", third, 1}, {"c", third, 1}}, "0:milli-333-2"},
		{"shares of several GPUs are of different ones", []step{{"a", half, 2}}, "0:milli-500-0 1:milli-500-0"},
		{"all of a GPU is one with no share on it", []step{{"a", sharing.ShareSize{MemoryMiB: 1}, 1}, {"b", sharing.ShareSize{MilliGPU: 1000}, 1}}, "1:milli-1000-0"},
		{"more GPUs than there are", []step{{"a", half, 3}}, "Allocate failed due to requested number of devices unavailable for some. Requested: 3 shares of 0.5, Available: 2, which is unexpected"},
		{"a part that no GPU has left", []step{{"a", half, 2}, {"b", sharing.ShareSize{MilliGPU: 600}, 1}}, "Allocate failed due to requested number of devices unavailable for some. Requested: 0.6, Available: 0.5, which is unexpected"},
		{"memory that no GPU has left, in MiB", []step{{"a", sharing.ShareSize{MemoryMiB: 15361}, 1}}, "Allocate failed due to requested number of devices unavailable for some. Requested: 15361, Available: 15360, which is unexpected"},
		{"more than one GPU", []step{{"a", sharing.ShareSize{MilliGPU: 1001}, 1}}, "a share of 1001 milli-GPUs of one GPU: ask for 1 to 1000"},
		{"no size", []step{{"a", sharing.ShareSize{}, 1}}, "a share of 0 MiB of GPU memory: ask for 1 at least"},
		{"none is no error", []step{{"a", half, 0}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, got := twoT4(t, gpu.Sharing{}), ""
			for _, s := range tt.steps {
				devices, err := l.TakeShares(s.owner, "some", s.size, s.n)
				var text []string
				for _, d := range devices {
					text = append(text, fmt.Sprint(d.GPU, ":", strings.TrimPrefix(d.ID, d.UUID+"::")))
				}
				got = strings.Join(text, " ")
				if err != nil {
					got = err.Error()
				}
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
