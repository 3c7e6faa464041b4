package deviceplugin_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth.dev/berth/test/soak"
)

const cut = "nvidia.com/mig-1g.10gb"

// TestManyPods churns pods, in a soak a thousand of them, through a kubelet and a
// node agent, and kills and restarts both of them all the while. Some pods have
// committed devices, the others get what there is. No device may be given twice,
// every commitment is kept to the letter, and in the end all is free again.
func TestManyPods(t *testing.T) {
	pods := soak.Pick(300, 1000)
	w := newWorld(t)
	var next atomic.Int64
	var workers sync.WaitGroup
	var running atomic.Int64
	for i := range 6 {
		running.Add(1)
		workers.Go(func() {
			defer running.Add(-1)
			rng := rand.New(rand.NewPCG(uint64(i), 6))
			for n := next.Add(1); n <= int64(pods) && !t.Failed(); n = next.Add(1) {
				w.churn(rng, int(n))
				if n%50 == 0 {
					w.disturb(int(n / 50))
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d pods ran, %d more were refused at admission while one side was away; kubelet restarted %d times, agent killed %d times; %d starts waited",
		w.ran.Load(), w.refused.Load(), w.restarts.Load(), w.kills.Load(), w.waited.Load())
	if got := w.judge.most; got == 0 {
		t.Error("no device was ever held")
	}
	begin := time.Now()
	await(t, w.k, gpus, 6, 6)
	await(t, w.k, cut, 14, 14)
	w.awaitNoSpecs()
	t.Logf("all was free again after %s", time.Since(begin))
	for resource, n := range map[string]int{gpus: 6, cut: 14} { // and can be had
		if err := w.run(w.pod("last-"+fmt.Sprint(n), "", []int{n}, resource)); err != nil {
			t.Error(err)
		}
	}
}
