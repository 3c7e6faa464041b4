// Package baseline has the placement policies that Berth's are compared with, and the
// list of all policies by name for simulations. Nothing in a cluster runs a baseline.
//
// The baselines are those of the artifact of "Beware of Fragmentation: Scheduling
// GPU-Sharing Workloads with Fragmentation Gradient Descent" (Weng et al., USENIX ATC
// '23; github.com/hkust-adsl/kubernetes-scheduler-simulator), with its integer
// rounding, which its published figures depend on, and first-fit.
package baseline

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/core/placement"
)

// policies are the policies by name, Berth's own first.
var policies = []struct {
	name string
	make placement.Maker
}{
	{"berth", func(s placement.Setup) placement.Policy { return placement.NewBerth(s, placement.DefaultParams()) }},
	{"berth-tuned", func(s placement.Setup) placement.Policy {
		return placement.NewTuned(s, placement.DefaultParams(), Tuning())
	}},
	{"fgd", NewFGD},
	{"bestfit", placement.NewBestFit},
	{"dotproduct", NewDotProduct},
	{"packing", NewPacking},
	{"clustering", NewClustering},
	{"random", NewRandom},
	{"first-fit", NewFirstFit},
}

// Tuning returns how berth-tuned tunes itself: by default, and compared with fgd.
func Tuning() placement.Tuning {
	t := placement.DefaultTuning()
	t.Reference = NewFGD
	return t
}

// Names returns the names of all policies, Berth's own first.
func Names() []string {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].name
	}
	return names
}

// Lookup returns the policy of a name. The error lists the names.
func Lookup(name string) (placement.Maker, error) {
	for i := range policies {
		if policies[i].name == name {
			return policies[i].make, nil
		}
	}
	names := Names()
	slices.Sort(names)
	return nil, fmt.Errorf("policy %q: not one of %s", name, strings.Join(names, ", "))
}
