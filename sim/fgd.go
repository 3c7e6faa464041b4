package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand"
	"slices"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// Classes are the classes that failures are counted by, in the order of tables.
var Classes = []string{"cpu", "share<500", "share>=500", "1", "2", "4", "8"}

// ClassOf returns the class of a request. Numbers of GPUs between those of
// Classes count with the next one below, more than 8 with 8; MIG devices and
// shares by memory with share<500.
func ClassOf(r *cluster.Request) string {
	switch {
	case r.GPUs == 0:
		return "cpu"
	case !r.IsWhole() && r.MilliGPU < 500:
		return "share<500"
	case !r.IsWhole():
		return "share>=500"
	case r.GPUs >= 8:
		return "8"
	case r.GPUs >= 4:
		return "4"
	case r.GPUs >= 2:
		return "2"
	}
	return "1"
}

// ClassCount is the pods of one class that have arrived, and how many of them
// were not placed.
type ClassCount struct{ Pods, Failed int }

// Point is the mean of allocation over the arrivals that bring demand to a
// whole percentage. Both are percentages of all GPUs.
type Point struct {
	DemandPercent    int
	AllocatedPercent float64
}

// Run is the result of one run.
type Run struct {
	Seed       int64
	Allocated  map[int]float64 // percent of GPU allocated, by percent of GPU asked for: 100 (if reached) and the load's
	Failed     map[string]ClassCount
	Decisions  int
	Impossible int  // pods that fit no node even when the cluster is empty; counted in Failed too
	Partial    bool // stopped before its end
	Curve      []Point
}

// FGD is the protocol of the paper "Beware of Fragmentation" (Weng et al.,
// USENIX ATC '23): the trace in random order, then pods drawn from it, one
// after the other, until what has been asked for is Load times the cluster. No
// pod leaves, and one that fits nowhere is dropped. It is to the letter of the
// paper's artifact, random numbers included.
type FGD struct {
	Cluster *cluster.Snapshot   // empty; each run works on a clone
	Held    []cluster.Placement // what is placed before the first arrival, and stays; it counts as asked for and as allocated
	Pods    []Pod
	Load    float64 // such as 1.3; above 0
	Policy  placement.Maker
	// Step, if not nil, is called after every hundredth arrival. Where it says
	// stop, the run ends and is Partial.
	Step func(arrived, total int) (stop bool)
}

// RunFGD runs the FGD protocol once. See FGD.
func RunFGD(s *cluster.Snapshot, pods []Pod, load float64, seed int64, policy placement.Maker) (Run, error) {
	return FGD{Cluster: s, Pods: pods, Load: load, Policy: policy}.Run(seed)
}

// Run runs the protocol with one seed: equal seeds give equal runs.
func (f FGD) Run(seed int64) (Run, error) {
	if !(f.Load > 0 && f.Load <= 100) {
		return Run{}, fmt.Errorf("load %v: it must be above 0 and at most 100 times the cluster", f.Load)
	}
	if f.Cluster.TotalGPUs() == 0 {
		return Run{}, fmt.Errorf("the cluster has no GPUs: there is nothing to allocate")
	}
	s, held, err := occupied(f.Cluster, f.Held, f.Load)
	if err != nil {
		return Run{}, err
	}
	rng := rand.New(rand.NewSource(seed))
	requests := SortedRequests(f.Cluster, f.Pods)
	arrivals := Arrivals(rng, requests, f.Load*float64(capacity(f.Cluster))-float64(held))
	ranks := Ranks(rng, f.Cluster)
	policy := f.Policy(placement.Setup{Cluster: s, Typical: Typical(requests), Rand: rng.Intn})
	run, err := f.Replay(placement.NewIndex(s, policy, ranks, rng.Intn), arrivals, held)
	run.Seed = seed
	return run, err
}

// occupied is a clone of s with held placed on it, and the milli-GPUs of that.
// It refuses a load that asks for no more than is held.
func occupied(s *cluster.Snapshot, held []cluster.Placement, load float64) (*cluster.Snapshot, int64, error) {
	s = s.Clone()
	sum := int64(0)
	for i := range held {
		if err := s.Assume(&held[i]); err != nil {
			return nil, 0, fmt.Errorf("what is held: %w", err)
		}
		sum += held[i].TotalMilli()
	}
	if sum > 0 && float64(sum) >= load*float64(capacity(s)) {
		return nil, 0, fmt.Errorf("load %v: %.0f percent of the cluster is held already; give a higher load", load, 100*float64(sum)/float64(capacity(s)))
	}
	return s, sum, nil
}

// capacity is the milli-GPUs of s.
func capacity(s *cluster.Snapshot) int64 { return int64(s.TotalGPUs()) * cluster.Whole }

// SortedRequests returns the requests of pods, sorted by pod name.
func SortedRequests(s *cluster.Snapshot, pods []Pod) []cluster.Request {
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	return Requests(s, sorted)
}

// Typical is the mix of requests: each shape, without node memory, and how many
// ask for it.
func Typical(requests []cluster.Request) []placement.Class {
	mix := placement.NewMix()
	for i := range requests {
		mix.Add(&requests[i], 1)
	}
	return mix.Classes()
}

// Arrivals returns the order of arrivals of the FGD protocol: requests shuffled,
// then drawn with replacement until one more would ask for more than target
// milli-GPUs in all; where requests alone ask for more, random ones are left
// out. The first number drawn from rng is dropped, as the artifact does.
func Arrivals(rng *rand.Rand, requests []cluster.Request, target float64) []cluster.Request {
	rng.Int()
	out := slices.Clone(requests)
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	total := int64(0)
	for i := range out {
		total += out[i].TotalMilli()
	}
	for drawn := false; float64(total) < target && (drawn || total > 0); drawn = true {
		r := &requests[rng.Intn(len(requests))]
		if float64(total+int64(r.MilliGPU)) > target {
			break
		}
		out = append(out, *r)
		total += r.TotalMilli()
	}
	for float64(total) > target && len(out) > 0 {
		i := rng.Intn(len(out))
		total -= out[i].TotalMilli()
		out = slices.Delete(out, i, i+1)
	}
	return out
}

// Ranks gives each node its rank for ties: nodes by name get a random
// permutation.
func Ranks(rng *rand.Rand, s *cluster.Snapshot) []int32 {
	byName := make([]int, s.Len())
	for i := range byName {
		byName[i] = i
	}
	slices.SortFunc(byName, func(a, b int) int { return cmp.Compare(s.Node(a).Name, s.Node(b).Name) })
	ranks := make([]int32, s.Len())
	for k, rank := range rng.Perm(s.Len()) {
		ranks[byName[k]] = int32(rank)
	}
	return ranks
}

// Replay places arrivals one by one, on a Placer made for a clone of f.Cluster:
// Run with arrivals of the caller's own. It reads f.Cluster, f.Load and f.Step
// only. held is what is placed already.
func (f FGD) Replay(p placement.Placer, arrivals []cluster.Request, held int64) (Run, error) {
	run := Run{Allocated: map[int]float64{}, Failed: map[string]ClassCount{}}
	for _, class := range Classes {
		run.Failed[class] = ClassCount{}
	}
	var (
		all             = float64(capacity(f.Cluster))
		asked, got      = held, held
		sum, count, col = 0.0, 0, 0
		impossible      = newImpossible(f.Cluster)
	)
	flush := func() {
		if count > 0 {
			run.Curve = append(run.Curve, Point{col, sum / float64(count)})
		}
		sum, count = 0, 0
	}
	for i := range arrivals {
		if f.Step != nil && i%100 == 99 && f.Step(i+1, len(arrivals)) {
			run.Partial = true
			break
		}
		r := &arrivals[i]
		p.Arrive(r)
		placed, ok, err := placement.Place(p, r)
		if err != nil {
			return run, fmt.Errorf("arrival %d: %w", i, err)
		}
		asked += r.TotalMilli()
		n := run.Failed[ClassOf(r)]
		n.Pods++
		if ok {
			got += placed.TotalMilli()
		} else {
			n.Failed++
			p.Refuse(r)
			if impossible.is(r) {
				run.Impossible++
			}
		}
		run.Failed[ClassOf(r)] = n
		run.Decisions++
		if x := int(math.Round(100 * float64(asked) / all)); x != col {
			flush()
			col = x
		}
		sum += math.Round(1e4*float64(got)/all) / 100
		count++
	}
	flush()
	for _, at := range []int{100, int(math.Round(100 * f.Load))} {
		for _, point := range run.Curve {
			if point.DemandPercent == at {
				run.Allocated[at] = point.AllocatedPercent
			}
		}
	}
	return run, nil
}

// impossible knows which shapes fit no node of an empty cluster.
type impossible struct {
	empty *cluster.Snapshot
	known map[cluster.Request]bool
}

func newImpossible(empty *cluster.Snapshot) *impossible {
	return &impossible{empty: empty, known: map[cluster.Request]bool{}}
}

func (m *impossible) is(r *cluster.Request) bool {
	never, ok := m.known[*r]
	if !ok {
		never = true
		for i := range m.empty.Len() {
			if placement.Fit(m.empty, i, r) == placement.Fits {
				never = false
				break
			}
		}
		m.known[*r] = never
	}
	return never
}
