package filters

import "berth.dev/berth/core/cluster"

// InTurn places members where they are planned, and returns the order in which the filters
// agree to them. One that is refused is tried again after the others; bad is the
// first that is refused in any order, or -1.
func (f *Filters) InTurn(placed []cluster.Placement) (order []int, bad int) {
	var left []int
	for k := range placed {
		if placed[k].Node >= 0 {
			left = append(left, k)
		}
	}
	for len(left) > 0 {
		var misses []int
		for _, k := range left {
			if f.Refuses(k, placed[k].Node) != "" {
				misses = append(misses, k)
				continue
			}
			f.Place(k, placed[k].Node)
			order = append(order, k)
		}
		if len(misses) == len(left) {
			return nil, left[0]
		}
		left = misses
	}
	return order, -1
}
