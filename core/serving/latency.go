package serving

import (
	"math"
	"time"
)

// How times are put into a Histogram: each step is a quarter longer than the one before, from a millisecond to two minutes.
const (
	firstStep = time.Millisecond
	growth    = 1.25
	steps     = 54
)

// Histogram is how many answers took how long, by steps of a quarter. The last step has no end.
type Histogram [steps]int

// Step is the step of a Histogram that a time falls into.
func Step(d time.Duration) int {
	if d <= firstStep {
		return 0
	}
	return min(steps-1, int(math.Ceil(math.Log(float64(d)/float64(firstStep))/math.Log(growth)-1e-9)))
}

// Quantile is the end of the step that the given part of all times is not above, to two digits; 0 is that there are none.
func (h *Histogram) Quantile(part float64) time.Duration {
	total := 0
	for _, n := range h {
		total += n
	}
	need, sum := int(math.Ceil(part*float64(total))), 0
	for i, n := range h {
		if sum += n; n > 0 && sum >= need {
			return end(i)
		}
	}
	return 0
}

// end is the longest time of a step.
func end(step int) time.Duration {
	d := time.Duration(float64(firstStep) * math.Pow(growth, float64(step)))
	digit := time.Microsecond
	for d/digit >= 1000 {
		digit *= 10
	}
	return d.Round(10 * digit)
}
