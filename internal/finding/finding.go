// Package finding is what an examination says: what was seen, how bad it is and
// what to do, and how a person reads it. It does not decide what is checked.
package finding

import (
	"bufio"
	"fmt"
	"io"

	"berth.dev/berth/internal/visible"
)

// Status says how bad a finding is.
type Status string

// The kinds of findings. Fail: pods cannot use GPUs. Warn: they can, but something
// will surprise a user.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Finding is the answer of one check.
type Finding struct {
	Name   string `json:"name"` // of the check, such as "driver"; stable
	Status Status `json:"status"`
	Seen   string `json:"seen"`         // what was found, in a few words
	Do     string `json:"do,omitempty"` // the next step; "" with OK
	// How is a command that shows what the finding was read from; "" is that none is known.
	How string `json:"how,omitempty"`
}

// Failed counts the findings that keep pods from using GPUs.
func Failed(findings []Finding) int {
	n := 0
	for _, f := range findings {
		if f.Status == Fail {
			n++
		}
	}
	return n
}

// Print writes findings as a table, the next step of each below it, and a last
// line that counts them.
func Print(w io.Writer, findings []Finding) error {
	out := bufio.NewWriter(w)
	width := 0
	for _, f := range findings {
		width = max(width, len(visible.Line(f.Name)))
	}
	counts := map[Status]int{}
	for _, f := range findings {
		counts[f.Status]++
		fmt.Fprintf(out, "%-4s  %-*s  %s\n", visible.Line(string(f.Status)), width, visible.Line(f.Name), visible.Line(f.Seen))
		if f.Do != "" {
			fmt.Fprintf(out, "      %*s  -> %s\n", width, "", visible.Line(f.Do))
		}
	}
	fmt.Fprintf(out, "%d ok, %d to look at, %d in the way of GPUs\n", counts[OK], counts[Warn], counts[Fail])
	return out.Flush()
}
