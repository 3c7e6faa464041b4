package forecast

// turn is the first of a line and how urgent it is.
type turn struct {
	*line
	urgency float64
}

// turns is a heap, the most urgent first.
type turns []turn

func (h turns) Len() int { return len(h) }
func (h turns) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.urgency != b.urgency {
		return a.urgency > b.urgency
	}
	if a.jobs[0].At != b.jobs[0].At {
		return a.jobs[0].At < b.jobs[0].At
	}
	return a.serial < b.serial
}
func (h turns) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *turns) Push(x any) { *h = append(*h, x.(turn)) }

// Pop implements heap.Interface.
func (h *turns) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
