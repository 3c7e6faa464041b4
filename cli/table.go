package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"golang.org/x/term"

	"berth.dev/berth/internal/visible"
)

// plainWidth is the width of tables that are not printed to a terminal.
const plainWidth = 100

// screen is where a table is shown.
type screen struct {
	width int  // columns; 0 is without bound
	color bool // bold and red are understood
}

// screenOf looks at what w is. Colors are left out where NO_COLOR is set.
func screenOf(w io.Writer) screen {
	s := screen{width: plainWidth}
	if !isTerminal(w) {
		return s
	}
	if columns, _, err := term.GetSize(int(visible.To(w).(*os.File).Fd())); err == nil && columns > 0 {
		s.width = columns
	}
	s.color = os.Getenv("NO_COLOR") == ""
	return s
}

// table is rows of cells under a head, in columns as wide as need be.
type table struct {
	head []string
	rows [][]string
	gap  int // blanks between columns
	// fit shortens a cell of the last column to a width; nil leaves it whole.
	fit func(row, width int) string
	// alarm tells which cells are shown in red; nil is none.
	alarm func(row, column int) bool
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the table, without the head if so asked.
func (t *table) write(w io.Writer, s screen, noHead bool) error {
	lines := oneLine(t.rows)
	if !noHead {
		lines = append([][]string{t.head}, lines...)
	}
	last := len(t.head) - 1
	width := make([]int, last)
	used := 0
	for i := range width {
		for _, cells := range lines {
			width[i] = max(width[i], utf8.RuneCountInString(cells[i]))
		}
		used += width[i] + t.gap
	}
	var b strings.Builder
	for n, cells := range lines {
		row := n - (len(lines) - len(t.rows))
		var line strings.Builder
		for i, cell := range cells {
			if i == last && t.fit != nil && row >= 0 && s.width > 0 {
				cell = lineOf(t.fit(row, max(16, s.width-used)))
			}
			pad := ""
			if i < last {
				pad = strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+t.gap)
			}
			line.WriteString(t.paint(s, row, i, cell) + pad)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := printBlock(w, block(b.String()))
	return err
}

func (t *table) paint(s screen, row, column int, cell string) string {
	switch {
	case !s.color || cell == "":
		return cell
	case row < 0:
		return styled(lipgloss.NewStyle().Bold(true), cell)
	case t.alarm != nil && t.alarm(row, column):
		return styled(lipgloss.NewStyle().Foreground(lipgloss.Red), cell)
	}
	return cell
}

// styled is a cell in a style, whose control sequences are Berth's own.
func styled(style lipgloss.Style, cell string) string {
	before, after, _ := strings.Cut(style.Render("x"), "x")
	return visible.Own(before) + cell + visible.Own(after)
}

// oneLine are rows whose cells keep to their line.
func oneLine(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = make([]string, len(row))
		for k, cell := range row {
			out[i][k] = lineOf(cell)
		}
	}
	return out
}

// fitList joins parts with commas after a lead, and says how many more there
// are where they do not all fit. Where not even one fits beside a lead, the
// lead stands with their number; else the first is cut. A width of 0 is any.
func fitList(lead string, parts []string, width int) string {
	whole := lead + strings.Join(parts, ", ")
	if width <= 0 || utf8.RuneCountInString(whole) <= width {
		return whole
	}
	for n := len(parts) - 1; n > 0; n-- {
		s := fmt.Sprintf("%s%s, +%d more", lead, strings.Join(parts[:n], ", "), len(parts)-n)
		if utf8.RuneCountInString(s) <= width {
			return s
		}
	}
	tail, first := "", []rune(whole)
	if len(parts) > 1 {
		if lead != "" {
			return fmt.Sprintf("%s%d owners", lead, len(parts))
		}
		tail, first = fmt.Sprintf(", +%d more", len(parts)-1), []rune(parts[0])
	}
	keep := min(len(first), max(1, width-1-len(tail)))
	if keep == len(first) {
		return string(first) + tail
	}
	return string(first[:keep]) + "…" + tail
}

// milliText writes milli-GPUs as GPUs: "6" or "2.43", a half rounded up.
func milliText(milli int64) string { return hundredths((milli + 5) / 10) }

// freeText is milliText with a half rounded down, so what is held and
// what is free add up as shown.
func freeText(milli int64) string { return hundredths((milli + 4) / 10) }

func hundredths(n int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%d.%02d", n/100, n%100), ".00")
}
