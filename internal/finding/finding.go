// Package finding is what an examination says: what was seen, how bad it is and
// what to do, and how a person reads it. It does not decide what is checked.
package finding

import (
	"bufio"
	"fmt"
	"io"
	"strings"

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

// Screen is where findings are shown: as long as they are and without colors, or within a terminal.
type Screen struct {
	Width int  // columns, at which texts are broken; 0 is without bound
	Color bool // colors are understood, and w of Print is a visible.Writer
}

// paint is a status in its color.
func (s Screen) paint(status Status) string {
	text := fmt.Sprintf("%-4s", visible.Line(string(status)))
	sequence, known := map[Status]string{OK: "\x1b[32m", Warn: "\x1b[33m", Fail: "\x1b[31m"}[status]
	if !s.Color || !known {
		return text
	}
	return visible.Own(sequence) + text + visible.Own("\x1b[m")
}

// leastText is the least width of a text beside its name. On a narrower screen lines are longer than the screen.
const leastText = 20

// Print writes findings as a table, the next step of each below it, and a last
// line that counts them.
func Print(w io.Writer, s Screen, findings []Finding) error {
	out := bufio.NewWriter(w)
	name := 0
	for _, f := range findings {
		name = max(name, len(visible.Line(f.Name)))
	}
	indent := 6 + name + 2
	wrapped := func(text, lead string) string {
		width := 0
		if s.Width > 0 {
			width = max(leastText, s.Width-indent-len(lead))
		}
		return strings.Join(visible.Wrap(visible.Line(text), width), "\n"+strings.Repeat(" ", indent+len(lead)))
	}
	counts := map[Status]int{}
	for _, f := range findings {
		counts[f.Status]++
		fmt.Fprintf(out, "%s  %-*s  %s\n", s.paint(f.Status), name, visible.Line(f.Name), wrapped(f.Seen, ""))
		if f.Do != "" {
			fmt.Fprintf(out, "%*s-> %s\n", indent, "", wrapped(f.Do, "-> "))
		}
	}
	fmt.Fprintf(out, "%d ok, %d to look at, %d in the way of GPUs\n", counts[OK], counts[Warn], counts[Fail])
	return out.Flush()
}
