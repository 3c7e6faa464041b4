package deviceplugin_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/deviceplugin/kubelettest"
	"berth.dev/berth/test/soak"
)

var seeds = flag.Int("seeds", 0, "how many orders of chance are tried, if not those of test/soak")

// TestWhateverHappensTheCountIsRightInTheEnd has things happen in an order of
// chance, without waiting for what they lead to. When no more happens, the
// kubelet must have what the node offers, and give it out.
func TestWhateverHappensTheCountIsRightInTheEnd(t *testing.T) {
	for seed := range uint64(cmp.Or(*seeds, soak.Pick(4, 12))) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { happen(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func happen(t *testing.T, rng *rand.Rand) {
	dir := folder(t)
	var clock atomic.Int64
	k := kubelettest.New(dir, 1)
	k.Now = func() time.Time { return time.Unix(0, clock.Load()) }
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	n := offering(gpus, "gpu", 8)
	o := deviceplugin.Options{Dir: dir}.Quick()
	stop := serve(t, o, n)
	other := &kubelettest.Plugin{Dir: dir, Socket: "nvidia-gpu.sock", Resource: gpus, IDs: []string{"GPU-a"}}
	there := false
	leave := func() {
		if there {
			other.Stop()
		}
		there = false
	}
	defer func() { leave() }()
	var log []string
	for range 40 {
		what := rng.IntN(9)
		log = append(log, fmt.Sprint(what))
		switch what {
		case 0:
			if err := k.Restart(); err != nil {
				t.Fatal(err)
			}
		case 1:
			k.Drop(gpus)
		case 2:
			for _, name := range sockets(t, dir) {
				if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
		case 3:
			n.set(gpus, nil)
		case 4:
			n.set(gpus, devices("gpu", 1+rng.IntN(8)))
		case 5:
			leave()
			there = other.Start(wait(t)) == nil // refused where our plugin drops the kubelet's call
		case 6:
			leave()
		case 7:
			stop()
			stop = serve(t, o, n)
		case 8: // time for some of it to come true
			if d := len(n.Offers()[gpus]); d > 0 && !there {
				await(t, k, gpus, d, d)
			}
		}
	}
	leave()
	n.set(gpus, devices("gpu", 6))
	t.Log(log)
	settled(t, k, &clock)
	for ctx := wait(t); ; { // what happened last may still drop a call
		err := k.Admit(wait(t), pod("all", map[string]int{gpus: 6}))
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		settled(t, k, &clock)
	}
	if got := k.Held(); len(got) != 1 || len(got[0].IDs) != 6 {
		t.Errorf("held is %v, want six GPUs by one pod", got)
	}
}

// settled waits until the kubelet has six GPUs. A kubelet that has dropped the
// plugin of before in two steps, with ours registered between them, has them
// when it has forgotten that.
func settled(t *testing.T, k *kubelettest.Kubelet, clock *atomic.Int64) {
	t.Helper()
	for all := wait(t); ; {
		some, cancel := context.WithTimeout(all, 5*time.Second)
		err := k.Await(some, func() bool { return has(k, gpus, 6, 6, 1) })
		cancel()
		switch {
		case err == nil:
			return
		case all.Err() != nil:
			await(t, k, gpus, 6, 6) // says what there is
			return
		}
		t.Log("the kubelet has to forget the plugin first")
		clock.Add(int64(kubelettest.StopGrace + time.Second))
	}
}
