package term

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The least widths of columns on a screen that is too narrow for a table: names are cut to the first before columns are left out,
// and to the others afterwards. The last column keeps room for a list, or for lines of text;
// they have less where nothing more can be left out.
const (
	longName  = 24
	shortName = 16
	leastName = 10
	goodList  = 20
	leastList = 12
	goodText  = 24
	leastText = 14
)

// uncut are columns whose words say nothing when they are cut.
var uncut = append([]string{"CODE", "FOR", "KIND", "REASON"}, stateColumns...)

// layout is which columns of a table are shown, and how wide they are.
type layout struct {
	shown []int // columns of the table, in order
	width []int // of all columns of the table; of the last it is what is left for it
	gone  []int // columns that are left out
}

// layout fits the columns of lines, the head among them, to a screen. Where all fit, and on screens that cut nothing, each column is as wide
// as its widest cell. Else long names are cut, then the columns of Spare are left out, then names are cut further, and then columns
// from the right are left out.
func (t *Table) layout(lines [][]string, s Screen) layout {
	l, names := t.uncutLayout(lines)
	last := len(t.Head) - 1
	elastic := t.Wrap || t.Fit != nil
	switch {
	case s.Cut && t.Wrap:
		l.width[last] = min(l.width[last], goodText)
	case s.Cut && t.Fit != nil:
		l.width[last] = min(l.width[last], goodList)
	}
	names[last] = names[last] && !elastic
	if s.Cut && s.Width > 0 {
		l.narrow(names, longName, s.Width, t.Gap)
		for _, name := range t.Spare {
			if l.used(t.Gap) > s.Width {
				l.leaveOut(slices.Index(t.Head, name))
			}
		}
		if t.Fit != nil && !t.Wrap && l.used(t.Gap) > s.Width {
			l.width[last] = min(l.width[last], leastList)
		}
		l.narrow(names, shortName, s.Width, t.Gap)
		l.narrow(names, leastName, s.Width, t.Gap)
		if t.Wrap && l.used(t.Gap) > s.Width {
			l.width[last] = max(min(l.width[last], leastText), l.width[last]-(l.used(t.Gap)-s.Width))
		}
		for i := last; i > 0 && l.used(t.Gap) > s.Width; i-- {
			if i != last || !elastic {
				l.leaveOut(i)
			}
		}
		slices.Sort(l.gone)
	}
	if elastic && s.Width > 0 {
		least := leastList
		if !s.Cut {
			least = shortName
		}
		l.width[last] = max(least, s.Width-(l.used(t.Gap)-l.width[last]))
	}
	return l
}

// uncutLayout is the layout of lines that shows each column as wide as its widest cell, and which columns have names that may be cut.
func (t *Table) uncutLayout(lines [][]string) (l layout, names []bool) {
	l.width, names = make([]int, len(t.Head)), make([]bool, len(t.Head))
	for i := range t.Head {
		l.shown = append(l.shown, i)
		for n, cells := range lines {
			l.width[i] = max(l.width[i], utf8.RuneCountInString(cells[i]))
			r, _ := utf8.DecodeRuneInString(cells[i])
			names[i] = names[i] || unicode.IsLetter(r) && n >= len(lines)-len(t.Rows) && !slices.Contains(uncut, t.Head[i])
		}
	}
	return l, names
}

// used is how wide a line is.
func (l *layout) used(gap int) int {
	sum := -gap
	for _, i := range l.shown {
		sum += l.width[i] + gap
	}
	return sum
}

// narrow takes from the widest column of names until the line fits, or none is wider than least.
func (l *layout) narrow(names []bool, least, room, gap int) {
	for l.used(gap) > room {
		widest := -1
		for _, i := range l.shown {
			if names[i] && l.width[i] > least && (widest < 0 || l.width[i] > l.width[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		l.width[widest]--
	}
}

func (l *layout) leaveOut(column int) {
	if at := slices.Index(l.shown, column); at >= 0 {
		l.shown = slices.Delete(l.shown, at, at+1)
		l.gone = append(l.gone, column)
	}
}

// note says which columns are left out, and how to see them.
func (t *Table) note(l layout, s Screen) string {
	var names []string
	for _, i := range l.gone {
		if t.Head[i] != "" {
			names = append(names, t.Head[i])
		}
	}
	if len(names) == 0 {
		return ""
	}
	how := "a wider terminal shows them"
	if s.Wider != "" {
		how = s.Wider + " shows them"
	}
	return string(s.Wrapped(fmt.Sprintf("left out: %s; %s", strings.Join(names, ", "), how)))
}

// CutMiddle shortens a name to a width: its start and its end remain, as names of Kubernetes differ at either.
func CutMiddle(name string, width int) string {
	runes := []rune(name)
	if len(runes) <= width || width < 1 {
		return name
	}
	start := width / 2
	return string(runes[:start]) + "…" + string(runes[len(runes)-(width-start-1):])
}
