package serving

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// OutcomeWindow is over how long answers are counted by which a canary is judged.
const OutcomeWindow = 5 * time.Minute

// leastSlower is by how much answers of a canary are slower at least to count as slower: less may be chance.
const leastSlower = 50 * time.Millisecond

// quantile is the part of the answers that were at least as fast as the figure by which revisions are compared.
const quantile = 0.95

// Outcomes are what came of the requests to one revision, over OutcomeWindow.
type Outcomes struct {
	Answers int // and requests that got none
	Errors  int // of them: with a status of 500 or more, broken off, or with a connection that was refused
	Times   Histogram
}

// Slow is how long all but the slowest twentieth of the answers without errors took at most; 0 is that there were none.
func (o *Outcomes) Slow() time.Duration { return o.Times.Quantile(quantile) }

// failed is the share of errors, in percent.
func (o *Outcomes) failed() float64 {
	if o.Answers == 0 {
		return 0
	}
	return Whole * float64(o.Errors) / float64(o.Answers)
}

// Add adds others.
func (o *Outcomes) Add(b *Outcomes) {
	o.Answers, o.Errors = o.Answers+b.Answers, o.Errors+b.Errors
	for i, n := range b.Times {
		o.Times[i] += n
	}
}

// Split is what came of the requests of a service while they were divided between two revisions.
type Split struct {
	Revision       string // the canary
	Percent        int    // its share
	Stable, Canary Outcomes
}

// Plus adds up what is known at two places. Where they divide requests in different ways, nothing is known of either; nil is that one divides
// none.
func (s *Split) Plus(o *Split) *Split {
	switch {
	case s == nil:
		return o
	case o == nil:
		return s
	case s.Revision != o.Revision || s.Percent != o.Percent:
		return &Split{}
	}
	sum := *s
	sum.Stable.Add(&o.Stable)
	sum.Canary.Add(&o.Canary)
	return &sum
}

// CanaryLimits say when a canary is backed out.
type CanaryLimits struct {
	Requests int     // below so many answers of it, it is not judged
	Errors   float64 // by how many percentage points its share of errors may be above that of the revision before; 0 is not to look at them
	Latency  float64 // how many times as slow its answers may be; 0 is not to look at them
}

// DefaultCanaryLimits are those of a service that sets none.
func DefaultCanaryLimits() CanaryLimits { return CanaryLimits{Requests: 20, Errors: 10, Latency: 2} }

// ParseCanaryLimits reads limits such as "requests=50,errors=5,latency=3"; what is left out is as by default.
func ParseCanaryLimits(text string) (CanaryLimits, error) {
	out := DefaultCanaryLimits()
	for word := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(word) == "" {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !(n >= 0 && n <= 1e6) {
			return out, fmt.Errorf("%q is not a limit; write one such as errors=5", word)
		}
		switch name {
		case "requests":
			if out.Requests = int(n); float64(out.Requests) != n || n < 1 {
				return out, fmt.Errorf("%q: requests is a whole number from 1", word)
			}
		case "errors":
			out.Errors = n
		case "latency":
			if out.Latency = n; n > 0 && n < 1 {
				return out, fmt.Errorf("%q: latency is how many times as slow the new revision may be, from 1; 0 does not look at it", word)
			}
		default:
			return out, fmt.Errorf("%q is not a limit; there are requests, errors, and latency", name)
		}
	}
	return out, nil
}

// Judge says why a canary is to be backed out, with figures; "" is that it is not.
func (s *Split) Judge(l CanaryLimits) string {
	c, b := &s.Canary, &s.Stable
	if c.Answers < l.Requests {
		return ""
	}
	if l.Errors > 0 && c.failed() > b.failed()+l.Errors {
		return fmt.Sprintf("%d of its %d answers were errors (%.0f%%), and %d of %d of the revision before (%.0f%%)", c.Errors, c.Answers, c.failed(), b.Errors, b.Answers, b.failed())
	}
	enough := c.Answers-c.Errors >= l.Requests && b.Answers-b.Errors >= l.Requests
	if slow, before := c.Slow(), b.Slow(); l.Latency > 0 && enough && float64(slow) > l.Latency*float64(before) && slow-before >= leastSlower {
		return fmt.Sprintf("95%% of its %d answers took up to %s, and those of the revision before up to %s (%d answers)", c.Answers, slow, before, b.Answers)
	}
	return ""
}
