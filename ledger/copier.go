package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// copier copies what can be read of a damaged book to a new one.
type copier struct {
	ctx      context.Context //nolint:containedctx // it lives for one call
	from, to *sql.DB
	now      time.Time
	known    bool // all tables of the damaged book are known
}

// table is one of the tables of a book, and which of its rows are lost.
type table struct {
	name    string
	columns []column
	keys    []int // the columns of its key, in their order
	gaps    []gap // where rows could not be read
	bad     int   // rows that were read and make no sense
}

type column struct {
	name, kind string
	null       bool // it may be NULL
}

// lost reports whether rows of a table are lost.
func (t *table) lost() bool { return t != nil && (len(t.gaps) > 0 || t.bad > 0) }

// gap is a part of a table, between two bounds, that cannot be read.
type gap struct {
	low, high *bound // nil is the end of the table
	misses    int    // how often nothing was found in the middle
}

// bound is a key, or only its first columns, at which a part of a table begins or ends.
type bound struct {
	key []any
	in  bool // the rows of a low bound itself are in the part
}

// tables lists the tables of the new book.
func (c *copier) tables() (list []*table, err error) {
	r := reader{ctx: c.ctx, db: c.to}
	r.rows("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid", nil, func(scan func(...any) error) error {
		t := &table{}
		list = append(list, t)
		return scan(&t.name)
	})
	for _, t := range list {
		keys := map[int]int{}
		r.rows("SELECT name, type, \"notnull\", pk FROM pragma_table_info(?) ORDER BY cid", []any{t.name}, func(scan func(...any) error) error {
			var col column
			var notNull, key int
			err := scan(&col.name, &col.kind, &notNull, &key)
			col.null = notNull == 0 && key == 0
			if key > 0 {
				keys[key] = len(t.columns)
			}
			t.columns = append(t.columns, col)
			return err
		})
		for k := 1; k <= len(keys); k++ {
			t.keys = append(t.keys, keys[k])
		}
	}
	return list, r.err
}

const (
	mostMisses = 12    // halvings of a gap in which nothing is found, until it is left
	mostProbes = 4_000 // looks into gaps of one table
)

// copy copies the rows of a table: from its beginning, from its end if there is a place that cannot be read, and then what can be
// found between. An error is one of the new book.
func (c *copier) copy(t *table) error {
	if there, err := c.has(t); !there || err != nil {
		return err
	}
	low, whole, err := c.run(t, nil, nil, false)
	if whole || err != nil {
		return err
	}
	high, whole, err := c.run(t, low, nil, true)
	if whole || err != nil {
		return err
	}
	queue := []gap{{low: low, high: high}}
	for probes := 0; len(queue) > 0; probes++ {
		g := queue[0]
		queue = queue[1:]
		middle := t.middle(g.low, g.high, c.now)
		if middle == nil || g.misses >= mostMisses || probes >= mostProbes {
			t.gaps = append(t.gaps, g)
			continue
		}
		for _, down := range []bool{false, true} {
			part := gap{low: middle, high: g.high}
			if down {
				part = gap{low: g.low, high: middle}
			}
			at, whole, err := c.run(t, part.low, part.high, down)
			if err != nil {
				return err
			}
			switch {
			case whole:
				continue
			case at == nil:
				part.misses = g.misses + 1
			case down:
				part.high = at
			default:
				part.low = at
			}
			queue = append(queue, part)
		}
	}
	return nil
}

// run copies rows of a part of a table, from its low end upwards or the other way round, until one cannot be read. It returns the last
// that was copied, nil is none, and whether all were.
func (c *copier) run(t *table, low, high *bound, down bool) (last *bound, whole bool, err error) {
	if err := c.ctx.Err(); err != nil {
		return nil, false, err
	}
	query, args := t.query(low, high, down)
	rows, err := c.from.QueryContext(c.ctx, query, args...)
	if err != nil {
		return nil, false, nil
	}
	defer rows.Close()
	tx, err := c.to.BeginTx(c.ctx, nil)
	if err != nil {
		return nil, false, err
	}
	defer tx.Rollback() //nolint:errcheck // nothing is left where it was committed
	put, err := tx.PrepareContext(c.ctx, "INSERT OR IGNORE INTO "+t.name+" VALUES (?"+strings.Repeat(", ?", len(t.columns)-1)+")")
	if err != nil {
		return nil, false, err
	}
	values, to := make([]any, len(t.columns)), make([]any, len(t.columns))
	for i := range values {
		to[i] = &values[i]
	}
	for rows.Next() {
		if rows.Scan(to...) != nil {
			break
		}
		if !t.sound(values) {
			t.bad++
			continue
		}
		if _, err := put.ExecContext(c.ctx, values...); err != nil && !constraint(err) {
			return nil, false, err
		}
		last = &bound{key: t.keyOf(values)}
	}
	whole = rows.Err() == nil
	return last, whole, tx.Commit()
}

// has reports whether there is a table to be copied: the book may be of an earlier version. One that is not known, as a part of the schema
// cannot be read, is lost.
func (c *copier) has(t *table) (bool, error) {
	rows, err := c.from.QueryContext(c.ctx, "SELECT 1 FROM "+t.name+" LIMIT 0")
	if err == nil {
		return true, rows.Close()
	}
	if !c.known || Damaged(err) {
		t.gaps = append(t.gaps, gap{})
	}
	return false, c.ctx.Err()
}

// constraint reports whether a row is refused for what is in it.
func constraint(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_CONSTRAINT
}

// query reads a part of a table.
func (t *table) query(low, high *bound, down bool) (query string, args []any) {
	names := make([]string, len(t.columns))
	for i := range t.columns {
		names[i] = t.columns[i].name
	}
	keys := make([]string, len(t.keys))
	for i, k := range t.keys {
		keys[i] = names[k]
	}
	var where []string
	add := func(b *bound, op string) {
		if b == nil {
			return
		}
		where = append(where, fmt.Sprintf("(%s) %s (?%s)", strings.Join(keys[:len(b.key)], ", "), op, strings.Repeat(", ?", len(b.key)-1)))
		args = append(args, b.key...)
	}
	if low != nil && low.in {
		add(low, ">=")
	} else {
		add(low, ">")
	}
	add(high, "<")
	query = "SELECT " + strings.Join(names, ", ") + " FROM " + t.name
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	direction := ""
	if down {
		direction = " DESC"
	}
	return query + " ORDER BY " + strings.Join(keys, direction+", ") + direction, args
}

// keyOf is the key of a row.
func (t *table) keyOf(values []any) []any {
	key := make([]any, len(t.keys))
	for i, k := range t.keys {
		key[i] = values[k]
	}
	return key
}

// sound reports whether the values of a row are of the kinds of their columns.
func (t *table) sound(values []any) bool {
	for i, v := range values {
		c := &t.columns[i]
		ok := false
		switch v.(type) {
		case nil:
			ok = c.null
		case int64:
			ok = c.kind == "INTEGER"
		case string:
			ok = c.kind == "TEXT"
		case []byte:
			ok = c.kind == "BLOB"
		}
		if !ok {
			return false
		}
	}
	return true
}

// middle is a bound between two, by the first column of the key; nil is that there is none.
func (t *table) middle(low, high *bound, now time.Time) *bound {
	if t.columns[t.keys[0]].kind == "TEXT" {
		a, b := "", "\xff"
		if low != nil {
			a, _ = low.key[0].(string)
		}
		if high != nil {
			b, _ = high.key[0].(string)
		}
		if m := between(a, b); m > a && m < b {
			return &bound{key: []any{m}, in: true}
		}
		return nil
	}
	a, b := int64(0), now.Add(24*time.Hour).UnixMilli() // keys are times, or small numbers
	if low != nil {
		a, _ = low.key[0].(int64)
	}
	if high != nil {
		b, _ = high.key[0].(int64)
	}
	if m := a + (b-a)/2; m > a && m < b {
		return &bound{key: []any{m}, in: true}
	}
	return nil
}

// between is a text about halfway between two, as SQLite compares them: byte by byte.
func between(a, b string) string {
	const digits = 40
	at := func(s string, i int) int {
		if i < len(s) {
			return int(s[i])
		}
		return 0
	}
	out, rest := make([]byte, digits), 0
	sum := make([]int, digits) // the two added up, as numbers with digits of 256
	for i := digits - 1; i >= 0; i-- {
		sum[i] = at(a, i) + at(b, i) + rest
		rest, sum[i] = sum[i]>>8, sum[i]&0xff
	}
	for i := range digits { // and divided by two
		n := rest<<8 | sum[i]
		out[i], rest = byte(n>>1), n&1
	}
	return strings.TrimRight(string(out), "\x00")
}
