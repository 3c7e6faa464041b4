package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// table reads a CSV file with a header, row by row. Every error begins with
// file:line:column, as compilers write it; the column is in bytes, from 1.
type table struct {
	file   string
	r      *csv.Reader
	header map[string]int
	row    []string
	err    error // the first error of a cell of this row
}

// newTable reads the header. Each of required is one column, or several names
// for it separated by "|". Columns may be in any order; those that the caller does not ask
// for are not read.
func newTable(file string, in io.Reader, required ...string) (*table, error) {
	t := &table{file: file, r: csv.NewReader(in), header: map[string]int{}}
	row, err := t.r.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s:1:1: the file is empty; its first line must name the columns", file)
	case err != nil:
		return nil, t.syntax(err)
	}
	for i, name := range row {
		if i == 0 {
			name = strings.TrimPrefix(name, "\ufeff")
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := t.header[name]; twice {
			return nil, t.at(i, "column %q is there twice; remove one", name)
		}
		t.header[name] = i
	}
	for _, names := range required {
		if !slices.ContainsFunc(strings.Split(names, "|"), t.has) {
			return nil, fmt.Errorf("%s:1:1: no column \"%s\"; the columns are %s", file, strings.ReplaceAll(names, "|", `" or "`), strings.Join(row, ", "))
		}
	}
	return t, nil
}

// has reports whether there is a column of that name.
func (t *table) has(column string) bool {
	_, ok := t.header[column]
	return ok
}

// next reads the next row; false at the end.
func (t *table) next() (bool, error) {
	row, err := t.r.Read()
	switch {
	case errors.Is(err, io.EOF):
		return false, nil
	case err != nil:
		return false, t.syntax(err)
	}
	t.row, t.err = row, nil
	return true, nil
}

// syntax turns an error of the CSV reader into one of ours.
func (t *table) syntax(err error) error {
	if p, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("%s:%d:%d: %w", t.file, p.Line, max(p.Column, 1), p.Err)
	}
	return fmt.Errorf("read %s: %w", t.file, err)
}

// at makes an error about cell i of the row read last.
func (t *table) at(i int, format string, args ...any) error {
	line, column := t.r.FieldPos(i)
	return fmt.Errorf("%s:%d:%d: %s", t.file, line, column, fmt.Sprintf(format, args...))
}

// refuse notes an error about a column of this row, unless there is one.
func (t *table) refuse(column, format string, args ...any) {
	if t.err == nil {
		t.err = t.at(t.header[column], format, args...)
	}
}

// text returns a cell without blanks around it; "" where there is no such column.
func (t *table) text(column string) string {
	i, ok := t.header[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(t.row[i])
}

// number returns a whole number from 0 up to most. An empty cell of a column in
// optional, or a column that is not there, is 0.
func (t *table) number(column string, most int64, optional bool) int64 {
	s := t.text(column)
	if s == "" && optional {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		t.refuse(column, "%s is %s; it must be %d at most", column, s, most)
	case err != nil:
		t.refuse(column, "%s is %q; it must be a whole number", column, s)
	case n < 0:
		t.refuse(column, "%s is %d; it must not be negative", column, n)
	case n > most:
		t.refuse(column, "%s is %d; it must be %d at most", column, n, most)
	default:
		return n
	}
	return 0
}

// seconds returns a time in seconds, and whether the cell says one.
func (t *table) seconds(column string) (float64, bool) {
	s := t.text(column)
	if s == "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		t.refuse(column, "%s is %q; it must be a number of seconds", column, s)
	case !(n >= 0 && n <= mostSeconds):
		t.refuse(column, "%s is %s; it must be from 0 to %g seconds", column, s, float64(mostSeconds))
	default:
		return n, true
	}
	return 0, false
}
