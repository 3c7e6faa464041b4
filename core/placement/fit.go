package placement

import "berth.dev/berth/core/cluster"

// Reason says why a request does not fit a node; the zero Reason is that it
// does. Its text is a CamelCase constant for people and programs.
type Reason string

// The reasons, in the order in which Fit asks.
const (
	Fits               Reason = ""
	Excluded           Reason = "Excluded"    // the request's class may not use the node: see cluster.Verdict
	TooManyPods        Reason = "TooManyPods" // the node holds as many requests as it may
	NotEnoughCPU       Reason = "NotEnoughCPU"
	NotEnoughMemory    Reason = "NotEnoughMemory"
	WrongProduct       Reason = "WrongProduct"       // no GPU of an allowed product
	NotEnoughGPUs      Reason = "NotEnoughGPUs"      // too few GPUs with enough left
	NotEnoughGPUMemory Reason = "NotEnoughGPUMemory" // enough milli-GPUs, too little memory
	NoMIGPlacement     Reason = "NoMIGPlacement"     // no free device of the profile, nor room to cut one
	NotOneClique       Reason = "NotOneClique"       // enough GPUs, not in one NVLink clique
)

// Fit says whether r fits node i of s now, or why not.
func Fit(s *cluster.Snapshot, i int, r *cluster.Request) Reason {
	n := s.Node(i)
	switch {
	case r.Class != 0 && s.Verdict(r.Class, i).Reason != 0:
		return Excluded
	case n.FreePods <= 0:
		return TooManyPods
	case r.CPUMilli > n.FreeCPUMilli:
		return NotEnoughCPU
	case r.MemoryBytes > n.FreeMemoryBytes:
		return NotEnoughMemory
	case r.GPUs == 0:
		return Fits
	case r.Units:
		q := s.Resolve(i, r)
		return fitGPUs(s, i, &q)
	}
	return fitGPUs(s, i, r)
}

// fitGPUs says whether the GPUs of node i do for r, which asks for some.
func fitGPUs(s *cluster.Snapshot, i int, r *cluster.Request) Reason {
	n := s.Node(i)
	switch {
	case r.Products != 0 && r.Products&n.Products == 0 || n.Products == 0:
		return WrongProduct
	case r.IsMIG():
		return fitMIG(s, i, r)
	case r.IsWhole() && n.Idle < r.GPUs, n.MostOpen < r.MilliGPU:
		return NotEnoughGPUs
	}
	oneProduct := r.Products == 0 || n.Products&^r.Products == 0
	if oneProduct && !r.OneClique && r.GPUMemoryBytes == 0 && !s.MemoryShares(i) && (r.IsWhole() || r.GPUs == 1) {
		return Fits
	}
	return fitEach(s, i, r)
}

// fitEach looks at every GPU of node i.
func fitEach(s *cluster.Snapshot, i int, r *cluster.Request) Reason {
	if r.Units && r.GPUs > 1 {
		return fitStacked(s, i, r)
	}
	var milli, both int32
	for j := range s.Open(i) {
		switch roomOn(s, i, j, r) {
		case roomNone:
		case roomMilli:
			milli++
		case roomBoth:
			milli++
			both++
		}
	}
	switch {
	case milli < r.GPUs:
		return NotEnoughGPUs
	case both < r.GPUs:
		return NotEnoughGPUMemory
	case r.OneClique && largestClique(s, i, r) < r.GPUs:
		return NotOneClique
	}
	return Fits
}

// fitStacked is fitEach for several units of a node that divides its GPUs, which
// may be of one GPU.
func fitStacked(s *cluster.Snapshot, i int, r *cluster.Request) Reason {
	var n int32
	for j, open := range s.Open(i) {
		if roomOn(s, i, j, r) == roomBoth {
			n += int32(open) / r.MilliGPU
		}
	}
	if n < r.GPUs {
		return NotEnoughGPUs
	}
	return Fits
}

// room is what a GPU has for a request.
type room uint8

const (
	roomNone  room = iota
	roomMilli      // enough milli-GPUs of an allowed product, too little memory
	roomBoth
)

// roomOn says what GPU j of node i has for r, which is not for MIG devices.
func roomOn(s *cluster.Snapshot, i, j int, r *cluster.Request) room {
	g, c := &s.GPUs(i)[j], &s.Cards(i)[j]
	milli, bytes := shareOf(r, c)
	switch {
	case !r.Products.Has(g.Product) || milli > int32(s.Open(i)[j]):
		return roomNone
	case bytes > g.FreeBytes || r.GPUMemoryBytes > 0 && c.MemoryBytes == 0:
		return roomMilli
	}
	return roomBoth
}

// shareOf returns what r takes of one GPU.
func shareOf(r *cluster.Request, c *cluster.Card) (milli int32, bytes int64) {
	if r.GPUMemoryBytes > 0 {
		return cluster.ShareMilli(r.GPUMemoryBytes, c.MemoryBytes), r.GPUMemoryBytes
	}
	return r.MilliGPU, cluster.ShareBytes(r.MilliGPU, c.MemoryBytes)
}

// largestClique is the most GPUs with room for r in one NVLink clique of node
// i. A GPU of no clique is alone.
func largestClique(s *cluster.Snapshot, i int, r *cluster.Request) int32 {
	var most int32
	cards := s.Cards(i)
	for j := range cards {
		var n int32
		for k := range cards {
			if (k == j || cards[k].Clique != 0 && cards[k].Clique == cards[j].Clique) && roomOn(s, i, k, r) == roomBoth {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// fitMIG counts the MIG devices that r could take on node i. Devices of one
// profile never stand in one another's way but by its budgets, which Starts
// and migRoom keep.
func fitMIG(s *cluster.Snapshot, i int, r *cluster.Request) Reason {
	if !s.HasMIG(i) {
		return NoMIGPlacement
	}
	var n int32
	gpus := s.GPUs(i)
	for j := range gpus {
		if n < r.GPUs && r.Products.Has(gpus[j].Product) {
			if p := s.ProfileNumber(gpus[j].Product, r.Profile); p != 0 {
				n += migRoom(s, i, j, p)
			}
		}
	}
	if n < r.GPUs {
		return NoMIGPlacement
	}
	return Fits
}
