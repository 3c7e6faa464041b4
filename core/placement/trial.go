package placement

import (
	"math"

	"berth.dev/berth/core/cluster"
)

// trialClasses is how many classes a trial counts failures by: no GPU, shares
// below and from 500 milli-GPUs, 1, 2-3, 4-7 and 8 or more whole GPUs. MIG
// devices and shares by memory count with the small shares.
const trialClasses = 7

// trialClass returns the number of the class of r.
func trialClass(r *cluster.Request) int {
	switch {
	case r.GPUs == 0:
		return 0
	case !r.IsWhole() && r.MilliGPU < 500:
		return 1
	case !r.IsWhole():
		return 2
	case r.GPUs == 1:
		return 3
	case r.GPUs < 4:
		return 4
	case r.GPUs < 8:
		return 5
	}
	return 6
}

// outcome is what came of one trial, or the sum over several.
type outcome struct {
	trials       float64
	full, over   float64 // percent of GPU allocated: when demand is as much as there is, and at the end
	pods, failed [trialClasses]float64
	left         [steps + 1]float64 // milli-GPUs free at the end, of GPUs that had this step free once
	leftOf       [steps + 1]float64 // how many such GPUs
}

// add sums.
func (o *outcome) add(x *outcome) {
	o.trials += x.trials
	o.full += x.full
	o.over += x.over
	for i := range o.pods {
		o.pods[i] += x.pods[i]
		o.failed[i] += x.failed[i]
	}
	for i := range o.left {
		o.left[i] += x.left[i]
		o.leftOf[i] += x.leftOf[i]
	}
}

// rate is the percentage of a class that was not placed.
func (o *outcome) rate(class int) float64 {
	return 100 * o.failed[class] / max(1, o.pods[class])
}

// try places q on a copy of the empty cluster, with the policy that policy makes
// for that copy. The policy is told of no arrival: it knows what it knows.
func try(empty *cluster.Snapshot, q *sequence, policy func(*cluster.Snapshot) Policy) outcome {
	s := empty.Clone()
	x := NewIndex(s, policy(s), q.ranks, nil)
	all := float64(s.TotalGPUs()) * cluster.Whole
	once := newSeen(s)
	o := outcome{trials: 1}
	asked, got := 0.0, 0.0
	var full, over mean
	for i := range q.requests {
		r := &q.requests[i]
		placed, ok, err := Place(x, r)
		if err != nil {
			panic(err) // policies choose what is free
		}
		class := trialClass(r)
		o.pods[class]++
		if ok {
			got += float64(placed.TotalMilli())
			once.note(s, &placed)
		} else {
			o.failed[class]++
		}
		asked += q.sizes[i]
		if math.Abs(asked/all-1) < 0.005 {
			full.add(got)
		}
		if asked >= q.demand-0.01*all {
			over.add(got)
		}
	}
	o.full, o.over = 100*full.of()/all, 100*over.of()/all
	once.left(s, &o)
	return o
}

// seen remembers what each GPU had free, in steps, while a trial went on.
type seen struct {
	first []int       // of each node: its first GPU among all
	steps [][2]uint64 // of each GPU, a bit for each step
}

func newSeen(s *cluster.Snapshot) *seen {
	m := &seen{first: make([]int, s.Len()), steps: make([][2]uint64, s.TotalGPUs())}
	n := 0
	for i := range m.first {
		m.first[i] = n
		n += len(s.GPUs(i))
	}
	return m
}

// note notes what the GPUs of p have left.
func (m *seen) note(s *cluster.Snapshot, p *cluster.Placement) {
	for _, d := range p.Devices {
		step := stepOf(int32(s.Open(p.Node)[d.GPU]))
		m.steps[m.first[p.Node]+int(d.GPU)][step/64] |= 1 << (step % 64)
	}
}

// enoughCPU is how many milli-CPU a node must have left for its GPUs to say
// something about holes: where CPU has run out, it was not the hole.
const enoughCPU = 2000

// left fills outcome.left with what is free at the end.
func (m *seen) left(s *cluster.Snapshot, o *outcome) {
	for i := range s.Len() {
		if s.Node(i).FreeCPUMilli < enoughCPU {
			continue
		}
		for j, free := range s.Open(i) {
			had := m.steps[m.first[i]+j]
			for step := 1; step < steps; step++ {
				if had[step/64]&(1<<(step%64)) != 0 {
					o.left[step] += float64(free)
					o.leftOf[step]++
				}
			}
		}
	}
}

// mean is a running mean; of nothing it is 0.
type mean struct{ sum, n float64 }

func (m *mean) add(x float64) { m.sum, m.n = m.sum+x, m.n+1 }
func (m *mean) of() float64   { return m.sum / max(1, m.n) }
