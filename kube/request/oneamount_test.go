package request

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
)

// TestOneAmountIsWhatAllAmountsSay compares the short way for a container that asks for one resource with that for all containers.
func TestOneAmountIsWhatAllAmountsSay(t *testing.T) {
	names := []string{"cpu", api.ResourceGPU, api.ResourceGPUShared, api.ResourceGPUMemory, api.ResourceMIGPrefix + "1g.5gb", api.ResourceHAMiMemory, api.ResourceHAMiCores, api.ResourceVolcanoNumber, api.ResourceVolcanoMemory}
	amounts := []string{"0", "1", "3", "-2", "500m", "1e30"}
	short := 0
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 3))
		list := func() v1.ResourceList {
			out := v1.ResourceList{}
			for range r.IntN(3) {
				out[v1.ResourceName(names[r.IntN(len(names))])] = resource.MustParse(amounts[r.IntN(len(amounts))])
			}
			return out
		}
		c := &v1.Container{Name: "main", Resources: v1.ResourceRequirements{Limits: list(), Requests: list()}}
		all := ContainerAmounts(c)
		name, n, ok := oneAmount(c)
		if !ok {
			for name := range all {
				if len(all) == 1 && !IsForeignShare(name) {
					t.Errorf("seed %d: %v is one amount", seed, all)
				}
			}
			continue
		}
		short++
		if diff := cmp.Diff(all, counts{name: n}); diff != "" {
			t.Errorf("seed %d: -all +one\n%s", seed, diff)
		}
		if diff := cmp.Diff(severalAsks(all), []sharing.Ask{{Resource: name, Count: n}}); diff != "" {
			t.Errorf("seed %d: -all +one\n%s", seed, diff)
		}
	}
	if short < 500 {
		t.Errorf("only %d containers ask for one resource", short)
	}
}
