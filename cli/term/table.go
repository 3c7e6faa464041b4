package term

import (
	"fmt"
	"image/color"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	xterm "golang.org/x/term"

	"berth.dev/berth/internal/visible"
)

// PlainWidth is the width of tables that are not printed to a terminal.
const PlainWidth = 100

// Screen is where a table is shown.
type Screen struct {
	Width int  // columns; 0 is without bound
	Color bool // bold and red are understood
}

// ScreenOf looks at what w is. Colors are left out where NO_COLOR is set.
func ScreenOf(w io.Writer) Screen {
	s := Screen{Width: PlainWidth}
	if !IsTerminal(w) {
		return s
	}
	if columns, _, err := xterm.GetSize(int(visible.To(w).(*os.File).Fd())); err == nil && columns > 0 {
		s.Width = columns
	}
	s.Color = os.Getenv("NO_COLOR") == ""
	return s
}

// Table is rows of cells under a head, in columns as wide as need be.
type Table struct {
	Head []string
	Rows [][]string
	Gap  int // blanks between columns
	// Fit shortens a cell of the last column to a width; nil leaves it whole.
	Fit func(row, width int) string
	// Alarm tells which cells are shown in red; nil is none.
	Alarm func(row, column int) bool

	order []int // of Rows, as they are printed; nil is as they are
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Write prints the table, without the head if so asked.
func (t *Table) Write(w io.Writer, s Screen, noHead bool) error {
	lines, order := oneLine(t.Rows), t.order
	if order == nil {
		order = make([]int, len(lines))
		for i := range order {
			order[i] = i
		}
	}
	sorted := make([][]string, len(lines))
	for i, row := range order {
		sorted[i] = lines[row]
	}
	lines = sorted
	if !noHead {
		lines = append([][]string{t.Head}, lines...)
	}
	last := len(t.Head) - 1
	width := make([]int, last)
	used := 0
	for i := range width {
		for _, cells := range lines {
			width[i] = max(width[i], utf8.RuneCountInString(cells[i]))
		}
		used += width[i] + t.Gap
	}
	var b strings.Builder
	for n, cells := range lines {
		row := n - (len(lines) - len(t.Rows))
		if row >= 0 {
			row = order[row]
		}
		var line strings.Builder
		for i, cell := range cells {
			if i == last && t.Fit != nil && row >= 0 && s.Width > 0 {
				cell = lineOf(t.Fit(row, max(16, s.Width-used)))
			}
			pad := ""
			if i < last {
				pad = strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+t.Gap)
			}
			line.WriteString(t.paint(s, row, i, cell) + pad)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := PrintBlock(w, Block(b.String()))
	return err
}

func (t *Table) paint(s Screen, row, column int, cell string) string {
	switch {
	case !s.Color || cell == "":
		return cell
	case row < 0:
		return styled(lipgloss.NewStyle().Bold(true), cell)
	case t.Alarm != nil && t.Alarm(row, column):
		return styled(lipgloss.NewStyle().Foreground(lipgloss.Red), cell)
	}
	return cell
}

// styled is a cell in a style, whose control sequences are Berth's own.
func styled(style lipgloss.Style, cell string) string {
	before, after, _ := strings.Cut(style.Render("x"), "x")
	return visible.Own(before) + cell + visible.Own(after)
}

// Colored is text in one of six colors, picked by n, where the screen has colors.
func (s Screen) Colored(text string, n int) string {
	if !s.Color {
		return text
	}
	colors := []color.Color{lipgloss.Cyan, lipgloss.Green, lipgloss.Yellow, lipgloss.Magenta, lipgloss.Blue, lipgloss.Red}
	return styled(lipgloss.NewStyle().Foreground(colors[n%len(colors)]), text)
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

// FitList joins parts with commas after a lead, and says how many more there
// are where they do not all fit. Where not even one fits beside a lead, the
// lead stands with their number; else the first is cut. A width of 0 is any.
func FitList(lead string, parts []string, width int) string {
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

// MilliText writes milli-GPUs as GPUs: "6" or "2.43", a half rounded up.
func MilliText(milli int64) string { return hundredths((milli + 5) / 10) }

// FreeText is milliText with a half rounded down, so what is held and
// what is free add up as shown.
func FreeText(milli int64) string { return hundredths((milli + 4) / 10) }

func hundredths(n int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%d.%02d", n/100, n%100), ".00")
}

// Count is "1 error" or "2 errors".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// FromMilli is milli-GPUs as GPUs.
func FromMilli(milli int64) float64 { return float64(milli) / 1000 }
