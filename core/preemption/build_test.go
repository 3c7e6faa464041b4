package preemption_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/sim/baseline"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const gib = 1 << 30

// spec is a node of n GPUs of a product.
func spec(t testing.TB, name, product string, n int) cluster.Spec {
	t.Helper()
	p, ok := gpu.Find(product)
	if !ok {
		t.Fatalf("no product %s", product)
	}
	return cluster.Spec{Name: name, CPUMilli: 64000, MemoryBytes: 512 * gib, GPUs: gpu.New(name, p, n)}
}

// newCluster is a cluster with nobody on it.
func newCluster(t testing.TB, nodes ...cluster.Spec) *preemption.Cluster {
	t.Helper()
	s, err := cluster.New(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return &preemption.Cluster{Snapshot: s, Holders: make([][]preemption.Holder, len(nodes)), MinCount: map[string]int{}}
}

// whole, share and mig are requests of each kind.
func whole(n int32) cluster.Request { return cluster.Request{GPUs: n, MilliGPU: cluster.Whole} }

func share(gibs int64) cluster.Request {
	return cluster.Request{GPUs: 1, GPUMemoryBytes: gibs * gib}
}

func mig(n int32, profile string) cluster.Request { return cluster.Request{GPUs: n, Profile: profile} }

// hold puts a holder on devices of a node that first-fit chooses, or on GPU at
// if that is not negative. h says all but its Placement.
func hold(t testing.TB, c *preemption.Cluster, node, at int, r cluster.Request, h preemption.Holder) {
	t.Helper()
	p := cluster.Placement{Node: node, Request: r}
	if at >= 0 {
		card := c.Snapshot.Cards(node)[at]
		d := cluster.Device{GPU: int32(at), MilliGPU: r.MilliGPU, MemoryBytes: cluster.ShareBytes(r.MilliGPU, card.MemoryBytes)}
		if r.GPUMemoryBytes > 0 {
			d.MilliGPU, d.MemoryBytes = cluster.ShareMilli(r.GPUMemoryBytes, card.MemoryBytes), r.GPUMemoryBytes
		}
		p.Devices = []cluster.Device{d}
	} else if r.GPUs > 0 {
		if why := placement.Fit(c.Snapshot, node, &r); why != placement.Fits {
			t.Fatalf("hold %+v on node %d: %s", r, node, why)
		}
		p.Devices = baseline.NewFirstFit(placement.Setup{}).Devices(c.Snapshot, node, &r, nil)
	}
	if err := c.Snapshot.Assume(&p); err != nil {
		t.Fatal(err)
	}
	h.Placement = p
	c.Holders[node] = append(c.Holders[node], h)
}

// random makes a small cluster that is nearly full, and a preemptor.
func random(t testing.TB, r *rand.Rand, members int) (*preemption.Cluster, *preemption.Preemptor) {
	products := []string{"Tesla T4", "NVIDIA A100-SXM4-40GB"}
	var nodes []cluster.Spec
	for i := range 1 + r.IntN(2) {
		n := spec(t, fmt.Sprint("n", i), products[r.IntN(2)], 1+r.IntN(3))
		n.CPUMilli, n.Recut = int64(4000+2000*r.IntN(3)), cluster.Recut(r.IntN(3))
		n.Shares, n.Pods = int32(1+2*r.IntN(2)), int32(2+r.IntN(10))
		for j := range n.GPUs {
			n.GPUs[j].Clique = r.IntN(3)
		}
		nodes = append(nodes, n)
	}
	c := newCluster(t, nodes...)
	verdicts := make([]cluster.Verdict, len(nodes))
	verdicts[0].Reason = uint8(r.IntN(2))
	c.Snapshot.SetClass(1, verdicts)
	c.Budgets = []int{r.IntN(3), r.IntN(2)}
	c.MinCount = map[string]int{"a": 1 + r.IntN(2), "b": r.IntN(3)}
	for range 4 + r.IntN(12) { // about half of them find room
		h := preemption.Holder{Priority: int32(r.IntN(4)), Start: now.Add(-time.Duration(r.IntN(5)) * time.Hour), Fixed: r.IntN(12) == 0, Leaving: r.IntN(8) == 0}
		switch r.IntN(8) {
		case 0:
			h.Saves.Every = 30 * time.Minute
		case 1:
			h.Saves.OnSignal = true
		case 2:
			h.Saves.Last = now.Add(-time.Duration(r.IntN(5)) * time.Hour)
		}
		if r.IntN(3) == 0 {
			h.Gang = []string{"a", "b"}[r.IntN(2)]
		}
		if r.IntN(3) == 0 {
			h.Budgets = []int{r.IntN(2)}
		}
		place(c, r, randomRequest(r), h)
	}
	for range r.IntN(2) {
		i := r.IntN(len(nodes))
		c.Snapshot.SetHealthy(i, r.IntN(len(nodes[i].GPUs)), false)
	}
	promise(c, r)
	p := &preemption.Preemptor{Priority: int32(1 + r.IntN(4))}
	for range members {
		p.Members = append(p.Members, randomRequest(r))
	}
	return c, p
}

// place puts a holder where there is room, if there is.
func place(c *preemption.Cluster, r *rand.Rand, q cluster.Request, h preemption.Holder) {
	i := r.IntN(c.Snapshot.Len())
	if placement.Fit(c.Snapshot, i, &q) != placement.Fits {
		return
	}
	h.Placement = cluster.Placement{Node: i, Request: q, Devices: choose(c.Snapshot, i, &q, baseline.NewRandom(placement.Setup{Rand: r.IntN}))}
	if c.Snapshot.Assume(&h.Placement) == nil {
		c.Holders[i] = append(c.Holders[i], h)
	}
}

// choose takes devices as p likes, where q fits.
func choose(s *cluster.Snapshot, i int, q *cluster.Request, p placement.Policy) []cluster.Device {
	asks := s.Resolve(i, q)
	return p.Devices(s, i, &asks, nil)
}

// promise promises what is or will be free, sometimes.
func promise(c *preemption.Cluster, r *rand.Rand) {
	q, i := randomRequest(r), r.IntN(c.Snapshot.Len())
	s := settle(c)
	if r.IntN(2) == 0 || placement.Fit(s, i, &q) != placement.Fits {
		return
	}
	c.Holders[i] = append(c.Holders[i], preemption.Holder{
		Priority: int32(r.IntN(4)), Promise: true,
		Placement: cluster.Placement{Node: i, Request: q, Devices: choose(s, i, &q, baseline.NewFirstFit(placement.Setup{}))},
	})
}

// settle is the cluster as it will be: who leaves gone, and promises kept.
func settle(c *preemption.Cluster, without ...preemption.ID) *cluster.Snapshot {
	s := c.Snapshot.Clone()
	each := func(do func(id preemption.ID, h *preemption.Holder)) {
		for i := range c.Holders {
			for k := range c.Holders[i] {
				do(preemption.ID{Node: i, Holder: k}, &c.Holders[i][k])
			}
		}
	}
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	each(func(id preemption.ID, h *preemption.Holder) {
		if h.Leaving || !h.Promise && slices.Contains(without, id) {
			must(s.Release(&h.Placement))
		}
	})
	each(func(id preemption.ID, h *preemption.Holder) {
		if h.Promise && !slices.Contains(without, id) {
			must(s.Assume(&h.Placement))
		}
	})
	return s
}

func randomRequest(r *rand.Rand) cluster.Request {
	var q cluster.Request
	switch r.IntN(6) {
	case 0:
		q = whole(int32(1 + r.IntN(3)))
		q.OneClique = r.IntN(3) == 0
	case 1:
		q = cluster.Request{GPUs: int32(1 + r.IntN(2)), MilliGPU: int32(100 * (1 + r.IntN(9)))}
	case 2:
		q = share(int64(1 + r.IntN(16)))
	case 3:
		q = mig(int32(1+r.IntN(2)), []string{"1g.5gb", "2g.10gb", "3g.20gb"}[r.IntN(3)])
	case 4:
		q = whole(1)
	}
	q.Units = q.IsWhole() && r.IntN(2) == 0
	if r.IntN(4) == 0 {
		q.Class = 1
	}
	q.CPUMilli = int64(1000 * r.IntN(4))
	return q
}

// back puts a holder back on s, on failed GPUs too, and says whether there is
// room.
func back(s *cluster.Snapshot, p *cluster.Placement) bool {
	var failed []int
	for _, d := range p.Devices {
		if j := int(d.GPU); !s.GPUs(p.Node)[j].Healthy {
			failed = append(failed, j)
			s.SetHealthy(p.Node, j, true)
		}
	}
	err := s.Assume(p)
	for _, j := range failed {
		s.SetHealthy(p.Node, j, false)
	}
	return err == nil
}
