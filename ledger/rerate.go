package ledger

import (
	"context"
	"fmt"
	"time"

	"berth.dev/berth/core/cost"
)

// Rerating is a change of the prices of a time that has passed. It is kept in the book, with the prices that it replaces.
type Rerating struct {
	From, To, At time.Time
	User, Reason string
}

// Rerate has each price in the time of a rerating that does not go on replaced by what rate returns for it, which may be the same
// alone. It returns the UIDs of nodes whose prices have changed. Their closed days are opened again.
func (b *Book) Rerate(ctx context.Context, r *Rerating, rate func(node string, old cost.Rate) []cost.Rate) (nodes map[string]bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	type row struct {
		node string
		cost.Rate
	}
	var rows []row
	read := reader{ctx: ctx, db: b.db}
	read.rows("SELECT node, begins, ends, micros, currency, source, remark FROM prices WHERE begins < ? AND ends > ? ORDER BY node, begins", []any{r.To.UnixMilli(), r.From.UnixMilli()}, func(scan func(...any) error) error {
		var p row
		var s span
		err := scan(&p.node, &s.begins, &s.ends, &p.Micros, &p.Currency, &p.Source, &p.Remark)
		p.From, p.To = s.times()
		rows = append(rows, p)
		return err
	})
	if read.err != nil {
		return nil, b.read(read.err)
	}
	nodes = map[string]bool{}
	err = b.change(ctx, func(w *writer) {
		id := int64(0)
		w.one([]any{&id}, "SELECT COALESCE(MAX(id), 0) + 1 FROM reratings")
		for i := range rows {
			old := &rows[i]
			list := rate(old.node, old.Rate)
			if len(list) == 1 && list[0] == old.Rate {
				continue
			}
			nodes[old.node] = true
			w.do("INSERT INTO rerated VALUES (?, ?, ?, ?, ?, ?, ?, ?)", id, old.node, old.From.UnixMilli(), old.To.UnixMilli(), old.Micros, old.Currency, old.Source, old.Remark)
			w.do("DELETE FROM prices WHERE node = ? AND begins = ?", old.node, old.From.UnixMilli())
			for _, p := range list {
				w.do("INSERT INTO prices VALUES (?, ?, ?, ?, ?, ?, ?)", old.node, p.From.UnixMilli(), p.To.UnixMilli(), p.Micros, p.Currency, p.Source, p.Remark)
			}
		}
		if len(nodes) > 0 {
			w.do("INSERT INTO reratings VALUES (?, ?, ?, ?, ?, ?)", id, r.At.UnixMilli(), r.From.UnixMilli(), r.To.UnixMilli(), r.User, r.Reason)
			w.reopen(r.From.UnixMilli(), r.To.UnixMilli(), fmt.Sprintf("priced again by %s: %s", r.User, r.Reason))
		}
	})
	return nodes, err
}
