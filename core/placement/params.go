package placement

import (
	"fmt"
	"math"
)

// Params are the constants of Berth's own policy. The zero value is not
// useful: start from DefaultParams.
type Params struct {
	// Eps is the chance, beside the shares of all classes, that no further
	// request comes for a hole. It makes holes that only rare requests fit
	// worth little. Above 0.
	Eps float64
	// K is how sharply GPU that cannot be fed with CPU loses its worth; above 0.
	// See phi.
	K float64
	// Kappa scales the CPU that filling a node's holes is expected to need;
	// below 1 it is more tolerant of scarce CPU. Above 0.
	Kappa float64
	// Mu is the worth of idle GPUs side by side, for requests of several.
	Mu float64
	// Turnover raises Mu to Mu*(1+Turnover*x), where x is the part of what was
	// placed that has left since. Where nothing leaves, a node is best filled
	// with what suits its CPU; where much does, with as little of the cluster as
	// will do, so that idle nodes come about again.
	Turnover float64
	// Spare is the weight of requests for several GPUs that have not arrived but
	// may, of every size from two GPUs to all of the widest node. It keeps whole nodes
	// idle where most of what is free stays free: it counts times the part of the
	// GPUs that is free and the part of what was placed that has left. Without it a
	// cluster half empty is filled as if its other half were to be filled next.
	Spare float64
	// Prolong is the price of a node that is in use longer by the whole run of a request that
	// declares how long it runs, in idle GPUs for each GPU of the node: see Stay.
	Prolong float64
	// Lambda is the price on products that only some requests may use, for
	// those that may use others.
	Lambda float64
	// Begin is by how many milli-GPUs an empty GPU of the same node
	// must be better for a share than one that is begun. The chance Eps alone
	// makes idle GPUs a little better, as if no request wanted whole ones.
	Begin float64
	// Quantum is the step of the score in milli-GPUs: nodes within one step
	// are equal, and rank decides. Above 0.
	Quantum float64
	// Rebuild is after how many arrivals, at least, the tables are rebuilt;
	// on clusters of more than 3*Rebuild nodes it is a third of the nodes.
	Rebuild int
	// Memory is after how many arrivals the mix forgets half; 0 is never.
	Memory float64
	// Holes, if not nil, replaces the computed worth of a hole for every
	// product: Holes[i] is that of 10*i milli-GPUs, for i from 0 to 100.
	Holes []float64
}

// DefaultParams are tuned on seeds 1-20 of the openb workloads, Spare on seeds 1-20
// of the protocol of sim.Room.
func DefaultParams() Params {
	return Params{Eps: 0.017, K: 6, Kappa: 0.74, Mu: 1, Turnover: 2, Spare: 4, Prolong: 1, Lambda: 0.2, Begin: 20, Quantum: 2, Rebuild: 200}
}

// Validate says which field is out of its range, or nil.
func (p *Params) Validate() error {
	for _, f := range []struct {
		name  string
		value float64
	}{{"Eps", p.Eps}, {"K", p.K}, {"Kappa", p.Kappa}, {"Quantum", p.Quantum}, {"Rebuild", float64(p.Rebuild)}} {
		if !(f.value > 0) || math.IsInf(f.value, 0) {
			return fmt.Errorf("params: %s is %v; it must be above 0", f.name, f.value)
		}
	}
	if !(p.Mu >= 0 && p.Turnover >= 0 && p.Spare >= 0 && p.Prolong >= 0 && p.Lambda >= 0 && p.Begin >= 0 && p.Memory >= 0) {
		return fmt.Errorf("params: Mu %v, Turnover %v, Spare %v, Prolong %v, Lambda %v, Begin %v and Memory %v must not be negative", p.Mu, p.Turnover, p.Spare, p.Prolong, p.Lambda, p.Begin, p.Memory)
	}
	if p.Holes != nil && len(p.Holes) != steps+1 {
		return fmt.Errorf("params: Holes has %d entries; it must have %d", len(p.Holes), steps+1)
	}
	return nil
}
