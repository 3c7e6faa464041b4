package mig_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/agent/mig"
	"berth.dev/berth/agent/nvml"
	core "berth.dev/berth/core/mig"
	"berth.dev/berth/test/soak"
)

// Whatever labels, holders, faults and restarts come in whatever order: no GPU
// is changed under a holder or while it is offered (bench checks that), what is
// drained is released, and once nobody is in the way the GPUs are as asked.
func TestManagerProperty(t *testing.T) {
	labels := []string{"", "all-disabled", "all-enabled", "all-1g.18gb", "all-3g.71gb", "all-7g.141gb", "all-1g.5gb", "nonsense"}
	for seed := range soak.Pick[uint64](40, 150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 7))
				chance := rand.New(rand.NewPCG(seed, 8)) // of the manager's goroutine
				b := newBench(t, "[{product: H200, count: 2}, {product: A100-SXM4-40GB, autoReset: true}, {product: L4}]")
				faults := true
				b.beforeChange = func(string, string) error {
					if !faults {
						return nil
					}
					return []error{nil, nil, nil, nvml.InUse, nvml.ErrGone, nvml.InsufficientResources}[chance.IntN(6)]
				}
				// Somebody may come while a GPU is being drained, as a pod whose
				// start was under way does.
				b.onDrain = func(uuid string) {
					if faults && chance.IntN(4) == 0 {
						b.holders[uuid] = []string{"pod late/0"}
					}
				}
				stop := b.run(mig.Options{})
				label := ""
				for range 40 {
					switch r.IntN(7) {
					case 0:
						label = labels[r.IntN(len(labels))]
						b.label <- label
					case 1:
						b.holdSome(r)
						b.m.Freed()
					case 2:
						b.m.Changed()
					case 3:
						b.sleep(time.Minute)
					case 4:
						stop()
						stop = b.run(mig.Options{})
						b.label <- label
					case 5:
						synctest.Wait() // between two rounds, as what changes within one was asked for before
						b.mu.Lock()
						b.wait = []string{"", "", "another plugin serves"}[r.IntN(3)]
						b.holdersErr = []error{nil, nil, errors.New("the API server is away")}[r.IntN(3)]
						b.mu.Unlock()
					}
					if r.IntN(3) > 0 {
						synctest.Wait()
					}
				}
				synctest.Wait()

				faults = false
				b.wait, b.holdersErr = "", nil
				clear(b.holders)
				label = labels[1+r.IntN(5)]
				b.label <- label
				synctest.Wait()
				gpus := facts(b.driver.Snapshot())
				c, _ := core.Builtin(label, gpus)
				if state, why := core.Judge(core.Plan(gpus, c)); state != core.Success {
					t.Errorf("%s ended %s: %s; events %q", label, state, why, b.events)
				}
				if last := b.states[len(b.states)-1]; last != core.Success {
					t.Errorf("the label says %s", last)
				}
				for uuid, is := range b.drained {
					if is {
						t.Errorf("%s is still drained", uuid)
					}
				}
				stop()
			})
		})
	}
}

// holdSome lets pods come to GPUs that are offered, and others go.
func (b *bench) holdSome(r *rand.Rand) {
	gpus := b.driver.Snapshot().GPUs
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range gpus {
		uuids := append([]string{g.UUID}, devices(g)...)
		uuid := uuids[r.IntN(len(uuids))]
		switch {
		case r.IntN(2) == 0:
			for _, u := range uuids {
				delete(b.holders, u)
			}
		case !b.drained[g.UUID]:
			b.holders[uuid] = []string{"pod x/" + uuid[len(uuid)-4:]}
		}
	}
}

func facts(s nvml.Snapshot) []core.GPU {
	var out []core.GPU
	for _, g := range s.GPUs {
		out = append(out, core.GPU{GPU: g.GPU, Capable: g.MIGCapable, Pending: g.MIGPending, ComputeSlices: g.ComputeSlices, Profiles: g.Profiles})
	}
	return out
}
