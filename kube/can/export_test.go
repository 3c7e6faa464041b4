package can

import "slices"

// Instead is what to use in the place of each kind that Berth has an answer for.
func Instead() map[string]string {
	out := map[string]string{}
	lists := [][]other{elsewhere}
	for _, list := range beside {
		lists = append(lists, list)
	}
	for _, o := range slices.Concat(lists...) {
		out[o.kind] = o.do
	}
	return out
}
