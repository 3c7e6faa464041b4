package cost

import "slices"

// Copies divides the rows of a day by the namespaces that keep a copy of them: a row of pods is in their namespace if that is there, and
// all others are at home, which always has an entry. The order of rows stays.
func Copies(rows []DayRow, home string, there func(namespace string) bool) map[string][]DayRow {
	out := map[string][]DayRow{home: nil}
	for i := range rows {
		in := home
		if r := &rows[i]; r.What == Held && there(r.Namespace) {
			in = r.Namespace
		}
		out[in] = append(out[in], rows[i])
	}
	return out
}

// FromCopies puts the rows of a day together again, in the order of DayRows. Rows that a namespace other than home has of others are left out: a person who may
// write there speaks for that namespace alone.
func FromCopies(copies map[string][]DayRow, home string) []DayRow {
	lists := make([][]DayRow, 0, len(copies))
	for in, rows := range copies {
		if in != home {
			rows = slices.DeleteFunc(slices.Clone(rows), func(r DayRow) bool { return r.What != Held || r.Namespace != in })
		}
		lists = append(lists, rows)
	}
	return AddDayRows(lists...)
}
