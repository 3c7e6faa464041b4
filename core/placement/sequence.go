package placement

import (
	"math"
	"math/bits"

	"berth.dev/berth/core/cluster"
)

// sequence is one synthetic order of arrivals.
type sequence struct {
	requests []cluster.Request
	sizes    []float64 // milli-GPUs that each asks for
	ranks    []int32   // of nodes, for ties
	demand   float64   // the sum of sizes
}

// mostArrivals bounds a sequence, for mixes that ask for next to no GPU.
const mostArrivals = 50_000

// draw makes a sequence of mix on s that asks for load times its GPUs: each
// class as often as its weight says, rounded up or down by chance, in random
// order. ok is false where mix asks for no GPU or s has none.
func draw(s *cluster.Snapshot, mix *Mix, load float64, d *dice) (q sequence, ok bool) {
	sizes := make([]float64, len(mix.classes))
	each := 0.0
	for i := range mix.classes {
		sizes[i] = sizeOn(s, &mix.classes[i].Request)
		each += mix.classes[i].Weight * sizes[i]
	}
	if each <= 0 || s.TotalGPUs() == 0 {
		return sequence{}, false
	}
	copies := min(load*float64(s.TotalGPUs())*cluster.Whole/each, mostArrivals/mix.total)
	carry := d.unit()
	for i := range mix.classes {
		for carry += mix.classes[i].Weight * copies; carry >= 1; carry-- {
			q.requests = append(q.requests, mix.classes[i].Request)
			q.sizes = append(q.sizes, sizes[i])
			q.demand += sizes[i]
		}
	}
	for i := len(q.requests) - 1; i > 0; i-- {
		j := d.below(i + 1)
		q.requests[i], q.requests[j] = q.requests[j], q.requests[i]
		q.sizes[i], q.sizes[j] = q.sizes[j], q.sizes[i]
	}
	q.ranks = make([]int32, s.Len())
	for i := range q.ranks {
		j := d.below(i + 1)
		q.ranks[i], q.ranks[j] = q.ranks[j], int32(i)
	}
	return q, true
}

// sizeOn is what r asks for in milli-GPUs; where that depends on the GPU, of
// the first node that has one for it.
func sizeOn(s *cluster.Snapshot, r *cluster.Request) float64 {
	if m := r.TotalMilli(); m > 0 || r.GPUs == 0 {
		return float64(m)
	}
	for i := range s.Len() {
		if m := MilliOn(s, i, r); m > 0 {
			return float64(r.GPUs) * float64(m)
		}
	}
	return 0
}

// dice is a generator of random numbers for trials: equal seeds give equal
// numbers on every machine. It is not for secrets.
//
// Source: SplitMix64; Steele, Lea and Flood, "Fast Splittable Pseudorandom
// Number Generators", OOPSLA 2014.
type dice struct{ state uint64 }

func (d *dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unit returns a number from 0 up to, not including, 1.
func (d *dice) unit() float64 { return float64(d.next()>>11) / (1 << 53) }

// below returns a whole number from 0 up to n-1; n is above 0.
func (d *dice) below(n int) int {
	hi, _ := bits.Mul64(d.next(), uint64(n))
	return int(hi)
}

// normal returns a number of the standard normal distribution (Box and Muller).
func (d *dice) normal() float64 {
	return math.Sqrt(-2*math.Log(1-d.unit())) * math.Cos(2*math.Pi*d.unit())
}
