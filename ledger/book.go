package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/usage"
)

// Book is an open ledger.
type Book struct {
	db   *sql.DB
	path string
	lock *os.File

	salvaged *Salvage

	mu       sync.Mutex // held while something is written
	closedTo int64      // end of the last day that is closed, in milliseconds
	kept     int64      // since when facts are kept, in milliseconds; 0 is that all are

	turned atomic.Int64 // counts changes of what is closed
	closed atomic.Pointer[closedSums]
}

// Write writes a batch in one transaction, and that the writer was there at a time. Days that are closed and of which it changes
// facts are opened again.
func (b *Book) Write(ctx context.Context, batch *Batch, alive time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.change(ctx, func(w *writer) {
		w.batch(batch)
		w.uses(batch)
		w.records(batch)
		w.do("INSERT INTO alive VALUES (1, ?1, ?1) ON CONFLICT (one) DO UPDATE SET at = ?1", alive.UnixMilli())
	})
}

// change runs a transaction.
func (b *Book) change(ctx context.Context, write func(w *writer)) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("write to the ledger %s: %w", b.path, err)
	}
	w := writer{ctx: ctx, tx: tx, closedTo: b.closedTo, kept: b.kept}
	if write(&w); w.err == nil {
		w.err = tx.Commit()
	} else {
		w.err = errors.Join(w.err, tx.Rollback())
	}
	if w.err != nil {
		return fmt.Errorf("write to the ledger %s: %w", b.path, w.err)
	}
	if w.turned {
		b.turned.Add(1)
	}
	return nil
}

// writer writes rows until one fails.
type writer struct {
	ctx context.Context //nolint:containedctx // it lives for one transaction
	tx  *sql.Tx
	err error

	closedTo, kept int64 // as Book has them
	turned         bool  // sums of days or months are others
}

func (w *writer) do(query string, args ...any) {
	if w.err == nil {
		_, w.err = w.tx.ExecContext(w.ctx, query, args...)
	}
}

func (w *writer) batch(b *Batch) {
	for i := range b.Nodes {
		n := &b.Nodes[i]
		w.do("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?)", n.UID, n.Name, n.Product, n.Instance, n.Region, n.Zone, string(n.Capacity))
	}
	for i := range b.Pods {
		p := &b.Pods[i]
		w.do("INSERT OR IGNORE INTO pods VALUES (?, ?, ?, ?, ?, ?, ?)", p.UID, p.Namespace, p.Name, p.Kind, p.Owner, p.User, p.Queue)
		if p.Labels != "" { // most pods of a team have the same
			w.do("INSERT OR IGNORE INTO label_sets (labels) VALUES (?)", p.Labels)
			w.do("INSERT OR IGNORE INTO pod_labels SELECT ?, id FROM label_sets WHERE labels = ?", p.UID, p.Labels)
		}
	}
	for i := range b.Holds {
		h := &b.Holds[i]
		w.changes("holds", "pod = ?", []any{h.Key}, h.From.UnixMilli(), ends(h.To))
		w.do("INSERT OR REPLACE INTO holds VALUES (?, ?, ?, ?, ?, ?, ?)", h.Key, h.From.UnixMilli(), ends(h.To), string(h.End.Source), h.End.Late.Milliseconds(), h.Value.Node, h.Value.Parts)
	}
	for i := range b.Ups {
		u := &b.Ups[i]
		w.changes("ups", "node = ?", []any{u.Key}, u.From.UnixMilli(), ends(u.To))
		w.do("INSERT OR REPLACE INTO ups VALUES (?, ?, ?, ?, ?, ?)", u.Key, u.From.UnixMilli(), ends(u.To), string(u.End.Source), u.End.Late.Milliseconds(), u.Value)
	}
	for i := range b.Strands {
		s := &b.Strands[i]
		of := StrandOf(s.Key)
		w.changes("strands", "node = ? AND reason = ?", []any{of.Node, string(of.Reason)}, s.From.UnixMilli(), ends(s.To))
		w.do("INSERT OR REPLACE INTO strands VALUES (?, ?, ?, ?, ?, ?, ?)", of.Node, string(of.Reason), s.From.UnixMilli(), ends(s.To), string(s.End.Source), s.End.Late.Milliseconds(), s.Value)
	}
	for i := range b.Prices {
		p := &b.Prices[i]
		w.changes("prices", "node = ?", []any{p.Key}, p.From.UnixMilli(), ends(p.To))
		w.do("INSERT OR REPLACE INTO prices VALUES (?, ?, ?, ?, ?, ?, ?)", p.Key, p.From.UnixMilli(), ends(p.To), p.Value.Micros, p.Value.Currency, p.Value.Source, p.Value.Remark)
	}
}

// ends is the column ends.
func ends(to time.Time) any {
	if to.IsZero() {
		return nil
	}
	return to.UnixMilli()
}

// StrandKey is the key of an interval in which parts of a node are stranded for a reason.
func StrandKey(s Strand) string { return s.Node + "/" + string(s.Reason) }

// StrandOf is what a StrandKey stands for.
func StrandOf(key string) Strand {
	node, reason, _ := strings.Cut(key, "/")
	return Strand{node, usage.Reason(reason)}
}

// Facts returns what is known of a time, for cost.Account.
func (b *Book) Facts(ctx context.Context, from, to time.Time) (*cost.Facts, error) {
	r := reader{ctx: ctx, db: b.db, from: from.UnixMilli(), to: to.UnixMilli()}
	f := r.facts()
	if r.err != nil {
		return nil, fmt.Errorf("read the ledger %s: %w", b.path, r.err)
	}
	return f, nil
}
