package term

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Sort has rows printed in the order of a column, named as in the head, in any case: numbers by size, others as text, equal ones as
// they were. A minus before the name turns the order round. The last rows, as many as keep, stay where they are. "" leaves all as they are.
func (t *Table) Sort(column string, keep int) error {
	if column == "" {
		return nil
	}
	name, down := strings.CutPrefix(column, "-")
	at := slices.IndexFunc(t.Head, func(h string) bool { return strings.EqualFold(h, name) })
	if at < 0 {
		var names []string
		for _, h := range t.Head {
			names = append(names, strings.ToLower(h))
		}
		if near := gpu.NearestWord(strings.ToLower(name), names); near != "" {
			return Usagef("invalid --sort-by %q: there is no such column; did you mean %q?", column, near)
		}
		return Usagef("invalid --sort-by %q: must be one of the columns %s", column, strings.Join(names, ", "))
	}
	t.order = make([]int, len(t.Rows))
	for i := range t.order {
		t.order[i] = i
	}
	slices.SortStableFunc(t.order[:max(0, len(t.Rows)-keep)], func(a, b int) int {
		if down {
			a, b = b, a
		}
		x, y := t.Rows[a][at], t.Rows[b][at]
		n, one := leading(x)
		m, two := leading(y)
		if one && two {
			return cmp.Compare(n, m)
		}
		return cmp.Or(cmp.Compare(rank(one), rank(two)), strings.Compare(x, y))
	})
	return nil
}

// rank puts numbers after what is none, such as "-".
func rank(number bool) int {
	if number {
		return 1
	}
	return 0
}

// leading is the number that a cell begins with, as of "6 (75%)", "40GiB", or "29.39".
func leading(cell string) (float64, bool) {
	end := strings.IndexFunc(cell, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(cell)
	}
	n, err := strconv.ParseFloat(cell[:end], 64)
	return n, err == nil
}
