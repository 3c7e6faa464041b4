package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite" // also the driver of that name
	sqlite3 "modernc.org/sqlite/lib"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/usage"
)

// Book is an open ledger.
type Book struct {
	db   *sql.DB
	path string
	lock *os.File

	mu       sync.Mutex // held while something is written
	closedTo int64      // end of the last day that is closed, in milliseconds
}

// Open opens the ledger in a file, and makes it if it is not there. Only one Book of a file can be open, in all
// processes; the next is an error that says so. Each batch is on the disk when Write returns.
func Open(ctx context.Context, path string) (*Book, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("open the ledger %s: %w", path, err)
	}
	if err := closed(path); err != nil {
		return nil, errors.Join(fmt.Errorf("open the ledger: %w", err), lock.Close())
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the ledger %s: %w", path, err), lock.Close())
	}
	b := &Book{db: db, path: path, lock: lock}
	if err := b.prepare(ctx); err != nil {
		if damaged(err) {
			err = fmt.Errorf("%w: move the file away to begin a new ledger, and keep it, as sqlite3's command .recover may read it", err)
		}
		return nil, errors.Join(fmt.Errorf("open the ledger %s: %w", path, err), b.Close())
	}
	return b, nil
}

// closed makes a file that its owner alone may read and write, whatever the umask is, if it is not there. SQLite gives
// the files beside it the same mode.
func closed(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// damaged reports whether a file is not, or no longer, a database.
func damaged(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xff == sqlite3.SQLITE_NOTADB || e.Code()&0xff == sqlite3.SQLITE_CORRUPT)
}

// prepare makes the tables of a new book, and checks that this program can read one that is there.
func (b *Book) prepare(ctx context.Context) error {
	var has int
	if err := b.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&has); err != nil {
		return err
	}
	if has > version {
		return fmt.Errorf("its schema is version %d, and this program knows versions up to %d: run the newer program", has, version)
	}
	if _, err := b.db.ExecContext(ctx, schema); err != nil {
		return err
	}
	if _, err := b.db.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		return err
	}
	days, err := b.Days(ctx)
	if len(days) > 0 {
		b.closedTo = days[len(days)-1].Add(cost.Day).UnixMilli()
	}
	return err
}

// Close closes the book.
func (b *Book) Close() error { return errors.Join(b.db.Close(), b.lock.Close()) }

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
	w := writer{ctx: ctx, tx: tx, closedTo: b.closedTo}
	if write(&w); w.err == nil {
		w.err = tx.Commit()
	} else {
		w.err = errors.Join(w.err, tx.Rollback())
	}
	if w.err != nil {
		return fmt.Errorf("write to the ledger %s: %w", b.path, w.err)
	}
	return nil
}

// writer writes rows until one fails.
type writer struct {
	ctx context.Context
	tx  *sql.Tx
	err error

	closedTo int64 // as Book has it
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
