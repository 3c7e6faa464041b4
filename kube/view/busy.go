package view

import "berth.dev/berth/kube/devices"

// SetBusy fills in Busy of every node and of the total: the mean utilization
// ratio of the GPUs that are held at all, each counted once however many share
// it. read gives the ratio, 0-1, of a GPU by UUID, and whether there is a
// reading; GPUs without one are left out of the mean.
func (v *View) SetBusy(read func(uuid string) (ratio float64, ok bool)) {
	sum, count := 0.0, 0
	for i := range v.Nodes {
		n := &v.Nodes[i]
		s, c := 0.0, 0
		for _, g := range n.GPUs {
			if g.Held == 0 || g.UUID == devices.UnknownUUID {
				continue
			}
			if r, ok := read(g.UUID); ok {
				s += min(max(r, 0), 1)
				c++
			}
		}
		n.Busy, n.BusyKnown = mean(s, c)
		sum += s
		count += c
	}
	v.Total.Busy, v.Total.BusyKnown = mean(sum, count)
}

func mean(sum float64, count int) (float64, bool) {
	if count == 0 {
		return 0, false
	}
	return sum / float64(count), true
}
