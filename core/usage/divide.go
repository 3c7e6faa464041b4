package usage

import (
	"cmp"
	"math/bits"
	"slices"
)

// Divide divides a total in proportion to weights, of which none is negative, by largest remainders: the parts are
// integers, add up to the total exactly, and differ from their exact size by less than 1. The first of equal remainders
// is rounded up. All are 0 if all weights are, and then nothing is divided.
func Divide(total int64, weights []int64) []int64 {
	out := make([]int64, len(weights))
	var sum uint64
	for _, w := range weights {
		sum += uint64(w)
	}
	if sum == 0 || total <= 0 {
		return out
	}
	left, rest, order := total, make([]uint64, len(weights)), make([]int, len(weights))
	for k, w := range weights {
		high, low := bits.Mul64(uint64(total), uint64(w))
		q, r := bits.Div64(high, low, sum) // at most total, as w is at most sum
		out[k], rest[k], order[k] = int64(q), r, k
		left -= int64(q)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, k := range order[:left] {
		out[k]++
	}
	return out
}
