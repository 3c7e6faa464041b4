package forecast

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// The bounds of what is remembered of earlier estimates.
const (
	estimatesKept  = 300
	fewestCompared = 20
)

// Large is the number of GPUs from which estimates of starts are taken apart: such jobs wait for nodes to be empty, so
// how long they wait says little of others.
const Large = 4

// Accuracy compares waits that were estimated with those that came, and corrects later estimates by it: apart for small
// and large jobs, and for each doubling of the wait, the last 300 of each.
type Accuracy struct {
	ratios map[bucket][]float64 // the oldest first
}

// bucket is estimates that are corrected together.
type bucket struct {
	octave int
	large  bool
}

// allWaits stands for all octaves.
const allWaits = -1

// NewAccuracy returns an Accuracy without estimates.
func NewAccuracy() *Accuracy { return &Accuracy{ratios: map[bucket][]float64{}} }

func bucketOf(wait time.Duration, gpus float64) bucket {
	return bucket{bits.Len64(uint64(max(wait/time.Minute, 0))), gpus >= Large}
}

// Came takes the wait that came of a job for which another was estimated.
func (a *Accuracy) Came(estimated, came time.Duration, gpus float64) {
	ratio := float64(max(came, time.Second)) / float64(max(estimated, time.Second))
	for _, b := range []bucket{bucketOf(estimated, gpus), {allWaits, gpus >= Large}} {
		all := append(a.ratios[b], ratio)
		a.ratios[b] = all[max(0, len(all)-estimatesKept):]
	}
}

// Corrected returns the wait that a part of the jobs with such an estimate, from 0 to 1, did not exceed. ok is false where
// fewer than twenty such jobs have started.
func (a *Accuracy) Corrected(estimated time.Duration, gpus, part float64) (wait time.Duration, ok bool) {
	own := a.ratios[bucketOf(estimated, gpus)]
	if len(own) < fewestCompared {
		own = a.ratios[bucket{allWaits, gpus >= Large}]
	}
	ratios := slices.Sorted(slices.Values(own))
	if len(ratios) < fewestCompared {
		return 0, false
	}
	ratio := ratios[min(len(ratios)-1, int(math.Ceil(part*float64(len(ratios)))))]
	return time.Duration(ratio * float64(max(estimated, time.Second))), true
}
