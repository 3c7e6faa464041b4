package simulate

import (
	"io"
	"time"

	"berth.dev/berth/cli/term"
)

// runProgress is one moving line on a terminal; elsewhere it is silent.
type runProgress struct {
	w     io.Writer
	tty   bool
	began time.Time
	shown time.Time
}

func newRunProgress(w io.Writer) *runProgress {
	return &runProgress{w: w, tty: term.IsTerminal(w), began: time.Now()}
}

// show draws the line again, ten times a second at most. Calls must not overlap.
func (p *runProgress) show(ended, runs int, done float64) {
	now := time.Now()
	if !p.tty || now.Sub(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = now
	const width = 24
	bar := make([]rune, width)
	for i := range bar {
		bar[i] = '·'
		if float64(i) < done*width {
			bar[i] = '█'
		}
	}
	term.Printf(p.w, "%s %s %3.0f%%  %d of %d runs  %.0fs", term.ClearLine, string(bar), 100*done, ended, runs, now.Sub(p.began).Seconds())
}

// end removes the line.
func (p *runProgress) end() {
	if p.tty && !p.shown.IsZero() {
		term.PrintBlock(p.w, term.ClearLine)
	}
}
