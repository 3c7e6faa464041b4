package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"berth.dev/berth/internal/visible"
)

// Style is what the place where text is shown understands.
type Style struct {
	Unicode bool // braille patterns, else ASCII marks
	Color   bool // ANSI colors; without Unicode they are not used
}

// marks tell lines apart where there are no colors.
const marks = "*o+x#%@&"

// colors are ANSI foregrounds: blue, yellow, magenta, green, cyan, red and
// two greys, readable on black and on white.
var colors = []int{34, 33, 35, 32, 36, 31, 90, 37}

// Text draws c in a box of width columns and height lines of plot, with axes
// and, right of each line's end, its name and last value. The width is at least
// 40 columns, the height at least 4 lines. A chart without points is "".
func (c *Chart) Text(width, height int, style Style) string {
	series := c.cut()
	f, ok := bounds(series)
	if !ok {
		return ""
	}
	names := labels(series, style)
	right, left := 0, 0
	for _, name := range names {
		right = max(right, utf8.RuneCountInString(name)+1)
	}
	height = max(height, 4)
	rows := map[int]string{}
	for _, t := range ticks(f.y0, f.y1, min(6, height/2)) {
		text := number(t)
		rows[f.row(t, height)] = text
		left = max(left, len(text))
	}
	plot := max(max(width, 40)-left-2-right, 10)
	grid := newCanvas(f, plot, height, style)
	for i, s := range slices.Backward(series) {
		grid.line(i, s.Points)
	}
	ends := labelRows(series, f, height)
	var b strings.Builder
	if c.Y != "" {
		fmt.Fprintf(&b, "%s\n", c.Y)
	}
	for row := range height {
		edge := "|"
		if style.Unicode {
			edge = "│"
		}
		line := fmt.Sprintf("%*s %s%s", left, rows[row], edge, grid.text(row))
		if i := slices.Index(ends, row); i >= 0 {
			line += " " + style.paint(i, names[i])
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString(axis(f, left, plot, style))
	if c.X != "" {
		fmt.Fprintf(&b, "%*s\n", left+2+(plot+utf8.RuneCountInString(c.X))/2, c.X)
	}
	return b.String()
}

// row is the line of text in which y falls; 0 is the topmost.
func (f frame) row(y float64, height int) int {
	return min(height-1, max(0, int((f.y1-y)/(f.y1-f.y0)*float64(height))))
}

// labels are the names as they stand at the ends of lines.
func labels(series []Series, style Style) []string {
	out := make([]string, len(series))
	for i, s := range series {
		p, ok := last(s)
		out[i] = s.Name
		if ok {
			out[i] = fmt.Sprintf("%s %.2f", s.Name, p.Y)
		}
		if !style.Unicode || !style.Color {
			out[i] = string(marks[i%len(marks)]) + " " + out[i]
		}
	}
	return out
}

// labelRows puts each line's label on a separate row, near the line's end, the
// highest first; -1 where there is no room.
func labelRows(series []Series, f frame, height int) []int {
	order := make([]int, 0, len(series))
	for i := range series {
		if _, ok := last(series[i]); ok {
			order = append(order, i)
		}
	}
	end := func(i int) float64 { p, _ := last(series[i]); return p.Y }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(end(b), end(a)) })
	rows := make([]int, len(series))
	for i := range rows {
		rows[i] = -1
	}
	next := 0
	for k, i := range order {
		row := max(next, f.row(end(i), height))
		row = min(row, height-(len(order)-k)) // leave room for those below
		if row < next {
			continue
		}
		rows[i], next = row, row+1
	}
	return rows
}

// axis is the X axis and the line of its ticks.
func axis(f frame, left, plot int, style Style) string {
	corner, bar, tee := "+", "-", "+"
	if style.Unicode {
		corner, bar, tee = "└", "─", "┬"
	}
	marks := make([]string, plot)
	for i := range marks {
		marks[i] = bar
	}
	under := []rune(strings.Repeat(" ", left+2+plot+8))
	free := 0
	for _, t := range ticks(f.x0, f.x1, plot/8) {
		at := int(math.Round((t - f.x0) / (f.x1 - f.x0) * float64(plot-1)))
		marks[at] = tee
		text := number(t)
		from := max(0, left+2+at-len(text)/2)
		if from < free {
			continue
		}
		copy(under[from:], []rune(text))
		free = from + len(text) + 1
	}
	return strings.Repeat(" ", left+1) + corner + strings.Join(marks, "") + "\n" + strings.TrimRight(string(under), " ") + "\n"
}

// paint colors text as line i.
func (s Style) paint(i int, text string) string {
	if !s.Color || !s.Unicode || text == "" {
		return text
	}
	return visible.Own(fmt.Sprintf("\x1b[%dm", colors[i%len(colors)])) + text + visible.Own("\x1b[0m")
}
