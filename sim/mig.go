package sim

import (
	"fmt"
	"math"
	"math/rand"
	"slices"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
)

// MIGMix is how often each MIG profile is asked for.
type MIGMix struct {
	Name    string
	Weights map[string]float64 // by profile of an A100 40GB, such as "1g.5gb"
}

// MIGMixes are the mixes that MIG placement is compared on: every profile alike,
// mostly small ones, mostly large ones, and both ends.
//
// Source: the four shapes of arXiv 2511.18906; the weights are ours.
func MIGMixes() []MIGMix {
	profiles := []string{"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}
	mixes := []MIGMix{{Name: "uniform"}, {Name: "small"}, {Name: "large"}, {Name: "both ends"}}
	weights := [][]float64{{1, 1, 1, 1, 1, 1}, {30, 25, 20, 15, 7, 3}, {3, 7, 15, 20, 25, 30}, {30, 15, 5, 5, 15, 30}}
	for i := range mixes {
		mixes[i].Weights = map[string]float64{}
		for k, p := range profiles {
			mixes[i].Weights[p] = weights[i][k]
		}
	}
	return mixes
}

// MIGRun is the result of one run.
type MIGRun struct {
	Seed            int64
	Arrived, Placed int     // over the second half of the run
	AllocatedMean   float64 // percent of compute slices held, mean over the same arrivals
}

// Acceptance is the percentage of requests that were placed.
func (r MIGRun) Acceptance() float64 { return 100 * float64(r.Placed) / float64(max(1, r.Arrived)) }

// The cluster and length of RunMIG.
const (
	migNodes    = 13
	migGPUs     = 8 // of each node
	migArrivals = 20000
)

// RunMIG offers MIG devices of one mix to 104 A100 GPUs, one request after the
// other; each holds its device for a random time (exponential), such that load
// times the cluster's compute slices are asked for at any moment. A request
// that fits nowhere is dropped. recut says when GPUs may be cut again: with
// RecutNever, a third each are cut for small, middle and large profiles.
//
// Equal seeds give every policy the same requests and times.
func RunMIG(mix MIGMix, recut cluster.Recut, load float64, seed int64, policy placement.Maker) (MIGRun, error) {
	if !(load > 0 && load <= 100) {
		return MIGRun{}, fmt.Errorf("load %v: it must be above 0 and at most 100 times the cluster", load)
	}
	s, err := migCluster(recut)
	if err != nil {
		return MIGRun{}, err
	}
	rng := rand.New(rand.NewSource(seed))
	draw, mean, err := mix.drawer(s)
	if err != nil {
		return MIGRun{}, err
	}
	x := placement.NewIndex(s, policy(placement.Setup{Cluster: s, Rand: rand.New(rand.NewSource(seed)).Intn}), Ranks(rng, s), rng.Intn)
	all := float64(capacity(s))
	hold := load * all / mean // mean arrivals that a device is held for
	run := MIGRun{Seed: seed}
	var running departures
	got := int64(0)
	for i := range migArrivals {
		r, until := draw(rng), float64(i)+hold*rng.ExpFloat64()
		for len(running) > 0 && running[0].at <= float64(i) {
			d := running.pop()
			got -= d.placed.TotalMilli()
			if err := s.Release(&d.placed); err != nil {
				return run, fmt.Errorf("departure before arrival %d: %w", i, err)
			}
		}
		x.Arrive(&r)
		placed, ok, err := placement.Place(x, &r)
		if err != nil {
			return run, fmt.Errorf("arrival %d: %w", i, err)
		}
		if ok {
			got += placed.TotalMilli()
			running.push(departure{at: until, serial: i, placed: placed})
		} else {
			x.Refuse(&r)
		}
		if i < migArrivals/2 {
			continue
		}
		if run.Arrived++; ok {
			run.Placed++
		}
		run.AllocatedMean += 100 * float64(got) / all / (migArrivals - migArrivals/2)
	}
	return run, nil
}

// migCluster makes the cluster of RunMIG.
func migCluster(recut cluster.Recut) (*cluster.Snapshot, error) {
	product, _ := gpu.Find("NVIDIA A100-SXM4-40GB")
	cuts := [][]string{
		slices.Repeat([]string{"1g.5gb"}, 7),
		{"2g.10gb", "2g.10gb", "1g.10gb", "1g.5gb", "1g.5gb"},
		{"4g.20gb", "3g.20gb"},
	}
	var specs []cluster.Spec
	for i := range migNodes {
		spec := cluster.Spec{Name: fmt.Sprintf("node-%02d", i), CPUMilli: math.MaxInt32, MemoryBytes: math.MaxInt64 / 2, Recut: recut}
		for j := range migGPUs {
			devices, err := gpu.Layout(product, cuts[(i*migGPUs+j)%len(cuts)])
			if err != nil {
				return nil, fmt.Errorf("cut GPU %d of node %d: %w", j, i, err)
			}
			spec.GPUs = append(spec.GPUs, gpu.GPU{
				Index: j, Product: product.Name, MemoryBytes: product.MemoryMiB << 20, Healthy: true, MIGEnabled: true, MIG: devices,
			})
		}
		specs = append(specs, spec)
	}
	return cluster.New(specs)
}

// drawer returns a func that draws requests, and their mean milli-GPUs.
func (m MIGMix) drawer(s *cluster.Snapshot) (func(*rand.Rand) cluster.Request, float64, error) {
	type entry struct {
		profile string
		upTo    float64
	}
	var entries []entry
	total, milli := 0.0, 0.0
	for i, p := range s.Profiles(0) {
		if w := m.Weights[p.Name]; w > 0 {
			total += w
			milli += w * float64(s.MIGDevice(0, 0, int8(i+1), 0).MilliGPU)
			entries = append(entries, entry{p.Name, total})
		}
	}
	if len(entries) == 0 || len(entries) < len(m.Weights) {
		return nil, 0, fmt.Errorf("mix %q: give each profile of an A100 40GB that it names a weight above 0", m.Name)
	}
	return func(rng *rand.Rand) cluster.Request {
		x := rng.Float64() * total
		i := slices.IndexFunc(entries, func(e entry) bool { return x < e.upTo })
		return cluster.Request{GPUs: 1, Profile: entries[i].profile}
	}, milli / total, nil
}
