// Package screen shows what commands print on terminals of several widths, for tests to compare with files
// that a person has reviewed. Only tests import it.
package screen

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"berth.dev/berth/test/golden"
)

// Widths are the columns of the terminals: half a laptop's, the usual, and a wide one.
var Widths = []int{60, 80, 200}

// terminal is a terminal of a width, without colors.
type terminal struct {
	strings.Builder
	width int
}

// Columns says how wide it is, to the package that writes tables.
func (t *terminal) Columns() int { return t.width }

// File compares what show prints on each of Widths with the file testdata/name, and fails t where they differ, or where a line is longer than its
// terminal. Lines that start with one of prose are text, which may be longer.
func File(t *testing.T, name string, show func(w io.Writer), prose ...string) {
	t.Helper()
	var all strings.Builder
	for _, width := range Widths {
		w := &terminal{width: width}
		show(w)
		fmt.Fprintf(&all, "-- %d columns --\n%s", width, w.String())
		for line := range strings.Lines(w.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width && !begins(line, prose) {
				t.Errorf("a line has %d characters on a terminal of %d: %s", n, width, line)
			}
		}
	}
	golden.File(t, name, all.String())
}

func begins(line string, prose []string) bool {
	for _, start := range prose {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}
