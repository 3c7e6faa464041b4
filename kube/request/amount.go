package request

import "k8s.io/apimachinery/pkg/api/resource"

// Bounds of what pods ask for and nodes have. Greater amounts count as these: more than
// any cluster has, and sums over the containers of a pod or the pods of a node stay
// within an int64.
const (
	MostAsked = 1 << 30 // of a GPU resource: GPUs, percent, MiB or GiB
	MostMilli = 1 << 40 // of CPU, in milli-CPUs: a thousand million CPUs
	MostBytes = 1 << 50 // of memory: 1 PiB
)

// Amount is what a quantity comes to in whole units, rounded up, and most where it is
// more. Value of a Quantity gives 0 for 1e30.
func Amount(q *resource.Quantity, most int64) int64 {
	if q.CmpInt64(most) >= 0 {
		return most
	}
	return q.Value()
}

// MilliAmount is Amount in thousandths. MilliValue of a Quantity gives 0 for 1e17 and
// less than 0 for 8Ei.
func MilliAmount(q *resource.Quantity, most int64) int64 {
	if q.CmpInt64(most/1000) >= 0 {
		return most
	}
	return q.MilliValue()
}
