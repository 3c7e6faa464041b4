package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite" // also the driver of that name
	sqlite3 "modernc.org/sqlite/lib"

	"berth.dev/berth/core/cost"
)

// Open opens the ledger in a file, and makes it if it is not there. Only one Book of a file can be open, in all
// processes; the next is an error that says so. Each batch is on the disk when Write returns. A file that is damaged is set aside, and
// what can be read of it is in the Book: Salvaged returns what is not.
func Open(ctx context.Context, path string) (*Book, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("open the ledger %s: %w", path, err)
	}
	b := &Book{path: path, lock: lock}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the ledger %s: %w", path, err), b.Close())
	}
	return b, nil
}

// open opens the file of a Book that has its lock.
func (b *Book) open(ctx context.Context) error {
	if err := finishSalvage(b.path); err != nil {
		return err
	}
	why, err := b.connect(ctx)
	if err == nil && why != "" {
		if err = b.db.Close(); err == nil || Damaged(err) {
			b.salvaged, err = salvage(ctx, b.path, why, time.Now().UTC().Truncate(time.Millisecond))
		}
		if err != nil {
			return fmt.Errorf("its file is damaged (%s) and cannot be salvaged: %w", why, err)
		}
		if why, err = b.connect(ctx); why != "" {
			err = fmt.Errorf("what was salvaged is damaged, too: %s", why)
		}
	}
	return err
}

// connect opens the file, and returns why it is damaged; "" is that it is not.
func (b *Book) connect(ctx context.Context) (why string, err error) {
	if err := closed(b.path); err != nil {
		return "", err
	}
	if b.db, err = dial(b.path); err != nil {
		return "", err
	}
	why, err = check(ctx, b.db)
	if err == nil && why == "" {
		err = b.prepare(ctx)
	}
	if Damaged(err) {
		why, err = err.Error(), nil
	}
	return why, err
}

// dial opens a file for writing.
func dial(path string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
}

// check has SQLite look at all pages, and returns what is wrong first; "" is nothing.
func check(ctx context.Context, db *sql.DB) (why string, err error) {
	err = db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&why)
	if why == "ok" {
		why = ""
	}
	return why, err
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

// Damaged reports whether an error is that the file of a Book is damaged: it is salvaged when it is opened again.
func Damaged(err error) bool {
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
	if err := makeTables(ctx, b.db); err != nil {
		return err
	}
	days, err := b.Days(ctx)
	if len(days) > 0 {
		b.closedTo = days[len(days)-1].Add(cost.Day).UnixMilli()
	}
	r := reader{ctx: ctx, db: b.db}
	r.rows("SELECT since FROM kept", nil, func(scan func(...any) error) error { return scan(&b.kept) })
	return errors.Join(err, r.err)
}

func makeTables(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
	return err
}

// Close closes the book.
func (b *Book) Close() error {
	if b.db == nil {
		return b.lock.Close()
	}
	return errors.Join(b.db.Close(), b.lock.Close())
}

// Salvaged returns what became of the file if it was damaged when it was opened, else nil.
func (b *Book) Salvaged() *Salvage { return b.salvaged }
