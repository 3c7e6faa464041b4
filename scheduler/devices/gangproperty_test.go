package devices_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/test/soak"
)

// TestNoGangEverRunsInPart lets gangs come and go while filters refuse, members
// are deleted and nodes fill, and holds at every rest that a gang has all of what
// it needs or nothing.
func TestNoGangEverRunsInPart(t *testing.T) {
	placed, waited := 0, 0
	for seed := range soak.Pick[int64](20, 60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewSource(seed))
			r := newRig(t, 1+rng.Intn(4), 1+rng.Intn(4), 1+rng.Intn(8))
			r.refuse = func(pod *v1.Pod, node string) bool { return (len(pod.Name)*7+int(seed)+int(node[1]))%5 == 0 }
			least := map[string]int{}
			for round := range 12 {
				name := fmt.Sprint("g", round)
				n := 1 + rng.Intn(6)
				least[name] = 1 + rng.Intn(n)
				pods := gangOf(name, n, least[name], fmt.Sprint("gpu=", 1+rng.Intn(2)))
				for _, i := range rng.Perm(n) {
					if r.add(pods[i]); rng.Intn(3) == 0 {
						r.run()
					}
				}
				for range rng.Intn(4) { // stop in the middle of it
					if len(r.active) > 0 {
						uid := r.active[0]
						r.active = r.active[1:]
						r.cycle(r.pods[uid])
					}
				}
				if rng.Intn(3) == 0 {
					if p := r.pods[types.UID(fmt.Sprint(name, "-0"))]; p != nil && p.Spec.NodeName == "" {
						r.remove(p.Name)
					}
				}
				r.run()
				r.rests(5 * time.Second)
				for gang, need := range least {
					switch n := len(r.bound(gang)); {
					case n == 0:
						waited++
					case n < need:
						t.Fatalf("seed %d, round %d: %d of gang %s are bound, it needs %d", seed, round, n, gang, need)
					default:
						placed++
					}
				}
				if len(r.permit) > 0 {
					t.Fatalf("seed %d, round %d: %d pods wait in Permit at rest", seed, round, len(r.permit))
				}
				if old := fmt.Sprint("g", rng.Intn(round+1)); len(r.bound(old)) > 0 && rng.Intn(2) == 0 {
					for _, at := range r.bound(old) {
						name, _, _ := strings.Cut(at, "@")
						r.remove(name)
					}
					delete(least, old)
				}
			}
		})
	}
	if placed < 100 || waited < 100 {
		t.Errorf("%d placed, %d waited: too few of one to show anything", placed, waited)
	}
}
