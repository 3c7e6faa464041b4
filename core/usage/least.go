package usage

// Room is CPU and memory of a node.
type Room struct{ MilliCPU, MemoryBytes int64 }

// SmallestPod is the room that the smallest pod with a GPU needs beside it, if no other is set.
var SmallestPod = Room{MilliCPU: 1000, MemoryBytes: 1 << 30}

// Plus is two rooms together.
func (r Room) Plus(more Room) Room {
	return Room{r.MilliCPU + more.MilliCPU, r.MemoryBytes + more.MemoryBytes}
}

// Minus is a room without another: below 0 where more is taken than there is.
func (r Room) Minus(taken Room) Room {
	return Room{r.MilliCPU - taken.MilliCPU, r.MemoryBytes - taken.MemoryBytes}
}

// Strands returns why a node with so much room left cannot take the smallest pod; "" is that it can. CPU goes first.
func (r Room) Strands(smallest Room) Reason {
	switch {
	case r.MilliCPU < smallest.MilliCPU:
		return NoCPU
	case r.MemoryBytes < smallest.MemoryBytes:
		return NoMemory
	}
	return ""
}
