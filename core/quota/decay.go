package quota

import (
	"math"
	"time"
)

// Decay is what was used until a time, each second of it counting the less the longer ago
// it is: half after each half-life.
type Decay struct {
	Value float64 // GPU-seconds
	At    time.Time
}

// To returns d at a later time, if parts of GPUs were held from d.At on: the integral of
// what was held times 2^(-age/half). half 0 counts nothing. A time before d.At changes nothing.
func (d Decay) To(now time.Time, parts int64, half time.Duration) Decay {
	if half <= 0 {
		return Decay{At: now}
	}
	if d.At.IsZero() {
		return Decay{At: now}
	}
	age := now.Sub(d.At).Seconds()
	if age <= 0 {
		return d
	}
	h := half.Seconds()
	left := math.Exp2(-age / h)
	return Decay{Value: d.Value*left + float64(parts)/Whole*(1-left)*h/math.Ln2, At: now}
}

// SetUsed sets what a queue, or one user in a queue, has used in the past. User "" is the queue.
func (b *Book) SetUsed(queue, user string, d Decay) {
	b.decayed[userAt{queue, user}] = d
	if i, ok := b.tree.index[queue]; ok {
		b.moved = append(b.moved, i)
	}
	if i, ok := b.tree.ask[queue]; ok && user != "" && b.leaves[i].count > 0 {
		b.lead(i)
	}
}
