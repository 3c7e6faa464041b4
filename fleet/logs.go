package fleet

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"berth.dev/berth/fleet/kubelet"
	"berth.dev/berth/fleet/smi"
)

// Bounds on what a container that prints forever shows: rounds that have been,
// and rounds that are yet to come for those who follow.
const (
	roundsPast  = 200
	roundsAhead = 50
)

// lines works out what a run of a plan that began at start prints. end is when
// it was stopped, zero if it runs. A container's status has whole seconds, so
// what was printed in the second of end counts.
func (n *node) lines(plan Plan, devices []string, start, end, now time.Time) []kubelet.Line {
	if !end.IsZero() {
		end = end.Truncate(time.Second).Add(time.Second - 1)
	}
	if ends := start.Add(plan.Duration); !plan.Forever && (end.IsZero() || ends.Before(end)) {
		end = ends
	}
	first, last := 0, 0
	if plan.Every > 0 {
		gone := now.Sub(start)
		for _, pause := range plan.Pauses {
			gone -= pause.For
		}
		rounds := int(max(0, gone) / plan.Every)
		first, last = max(0, rounds-roundsPast), rounds+roundsAhead
	}
	var out []kubelet.Line
	for round := first; round <= last; round++ {
		for _, s := range plan.Steps {
			if s.Once && round > 0 {
				continue
			}
			if s.Trains {
				s.Text = trainingLine((round + 1) * lineSteps)
			}
			at := start.Add(plan.since(time.Duration(round)*plan.Every + s.After))
			if !end.IsZero() && at.After(end) {
				return out
			}
			for _, text := range n.print(s, devices, at) {
				out = append(out, kubelet.Line{At: at, Text: text})
			}
		}
	}
	return out
}

// trainingLine is what a simulated training program prints after a step: a loss that falls, and by less each time.
func trainingLine(step int) string {
	return fmt.Sprintf("step %d loss %.4f", step, 0.4+1.9*math.Exp(-float64(step)/400))
}

// print returns the lines of one step at a time that may be yet to come:
// nvidia-smi shows idle GPUs as they read then.
func (n *node) print(s Step, devices []string, at time.Time) []string {
	switch {
	case s.Date:
		return []string{at.UTC().Format("Mon Jan _2 15:04:05 UTC 2006")}
	case s.SMI == nil:
		return strings.Split(strings.TrimSuffix(s.Text, "\n"), "\n")
	case len(devices) == 0:
		devices = []string{} // not nil: a container without devices sees none
	}
	var out bytes.Buffer
	smi.Run(context.Background(), func() smi.View { return n.view(devices, at, false) }, s.SMI, &out, &out)
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}
