package term

import (
	"fmt"
	"image/color"
	"io"
	"os"
	"slices"
	"strings"
	"time"
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
	Color bool // colors are understood
	// Cut has no line longer than Width: names are cut, and columns left out. Programs read what is not cut.
	Cut bool
	// Wider is a flag that shows what is left out, such as "-o wide"; "" is that none does.
	Wider string
}

// Sized is a writer that knows how many columns its screen has. Others are asked whether they are terminals.
type Sized interface{ Columns() int }

// ScreenOf looks at what w is. Colors are left out where NO_COLOR is set.
func ScreenOf(w io.Writer) Screen {
	if sized, known := visible.To(w).(Sized); known {
		return Screen{Width: sized.Columns(), Cut: true}
	}
	s := Screen{Width: PlainWidth}
	if !IsTerminal(w) {
		return s
	}
	if columns, _, err := xterm.GetSize(int(visible.To(w).(*os.File).Fd())); err == nil && columns > 0 {
		s.Width, s.Cut = columns, true
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
	// Wrap breaks the last column into lines on a screen that cuts, in place of Fit.
	Wrap bool
	// Spare are columns that a screen which is too narrow does without, in this order.
	Spare []string
	// Alarm tells which cells are shown in red; nil is none. Words of states have their colors without it.
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
	l := t.layout(lines, s)
	var b strings.Builder
	for n, cells := range lines {
		row := n - (len(lines) - len(t.Rows))
		if row >= 0 {
			row = order[row]
		}
		b.WriteString(t.line(s, l, row, cells))
	}
	b.WriteString(t.note(l, s))
	_, err := PrintBlock(w, Block(b.String()))
	return err
}

// line is a row, or the head where row is -1, as it is shown: more than one line where the last column is wrapped.
func (t *Table) line(s Screen, l layout, row int, cells []string) string {
	var line strings.Builder
	last, at := len(t.Head)-1, 0
	for n, i := range l.shown {
		cell := cells[i]
		switch {
		case i == last && s.Cut && t.Wrap && s.Width > 0:
			parts := visible.Wrap(cell, l.width[i])
			for k := range parts {
				parts[k] = t.paint(s, row, i, parts[k])
			}
			line.WriteString(strings.Join(parts, "\n"+strings.Repeat(" ", at)))
			continue
		case i == last && t.Fit != nil && s.Width > 0:
			if row >= 0 {
				cell = lineOf(t.Fit(row, l.width[i]))
			}
		case s.Cut:
			cell = CutMiddle(cell, l.width[i])
		}
		line.WriteString(t.paint(s, row, i, cell))
		if n < len(l.shown)-1 {
			line.WriteString(strings.Repeat(" ", l.width[i]-utf8.RuneCountInString(cell)+t.Gap))
			at += l.width[i] + t.Gap
		}
	}
	return strings.TrimRight(line.String(), " ") + "\n"
}

func (t *Table) paint(s Screen, row, column int, cell string) string {
	switch {
	case !s.Color || cell == "":
		return cell
	case row < 0:
		return styled(lipgloss.NewStyle().Bold(true), cell)
	case t.Alarm != nil && t.Alarm(row, column):
		return styled(lipgloss.NewStyle().Foreground(lipgloss.Red), cell)
	case slices.Contains(stateColumns, t.Head[column]):
		if c, known := stateColors[strings.ToLower(cell)]; known {
			return styled(lipgloss.NewStyle().Foreground(c), cell)
		}
	}
	return cell
}

// stateColumns are the columns whose words have colors: green for what is well, yellow for what waits or goes on, and red for what has failed.
var stateColumns = []string{"STATE", "HEALTH", "PHASE", "SEVERITY"}

var stateColors = map[string]color.Color{
	"ready": lipgloss.Green, "running": lipgloss.Green, "healthy": lipgloss.Green, "succeeded": lipgloss.Green, "bound": lipgloss.Green,
	"queued": lipgloss.Yellow, "waiting": lipgloss.Yellow, "waitingforgpu": lipgloss.Yellow, "pending": lipgloss.Yellow, "starting": lipgloss.Yellow,
	"created": lipgloss.Yellow, "restarting": lipgloss.Yellow, "suspending": lipgloss.Yellow, "terminating": lipgloss.Yellow, "stopping": lipgloss.Yellow,
	"loading": lipgloss.Yellow, "warning": lipgloss.Yellow, "unschedulable": lipgloss.Yellow,
	"failed": lipgloss.Red, "invalid": lipgloss.Red, "unhealthy": lipgloss.Red, "critical": lipgloss.Red, "lost": lipgloss.Red,
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

// Stamp is a time in RFC 3339; "" is the zero time.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
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
