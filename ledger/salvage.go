package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"berth.dev/berth/core/cost"
)

// Salvage is what became of a book that was damaged.
type Salvage struct {
	At     time.Time
	Why    string      // what SQLite found first
	Kept   string      // the file that has the damaged book
	Losses []cost.Loss // what could not be read; empty is that nothing is lost
}

// String is the Salvage for people.
func (s *Salvage) String() string {
	text := "nothing is lost"
	if len(s.Losses) > 0 {
		lines := make([]string, len(s.Losses))
		for i := range s.Losses {
			lines[i] = s.Losses[i].String()
		}
		text = "lost is: " + strings.Join(lines, "; ")
	}
	return fmt.Sprintf("its file was damaged (%s) and is kept as %s; what could be read is in a new one, and %s", s.Why, s.Kept, text)
}

// What the name of a book ends with that is being salvaged, and that is salvaged and not yet in its place.
const (
	half = ".salvage"
	done = ".salvaged"
)

// beside are what the names of the files end with that SQLite has beside a book.
var beside = []string{"-wal", "-shm"}

// salvage copies what can be read of a damaged book to a new one, keeps the damaged one under another name, and puts the new one in
// its place. It may be interrupted anywhere: it is done again or finished when the book is opened next.
func salvage(ctx context.Context, path, why string, now time.Time) (*Salvage, error) {
	fresh := path + half
	s := &Salvage{At: now, Why: firstLine(why), Kept: fmt.Sprintf("%s.damaged-%s", path, now.Format("20060102T150405.000Z"))}
	var err error
	if s.Losses, err = copyBook(ctx, path, fresh, now); err != nil {
		return nil, errors.Join(err, remove(fresh))
	}
	for _, end := range append([]string{""}, beside[0]) {
		if err := keep(path+end, s.Kept+end); err != nil {
			return nil, fmt.Errorf("keep the damaged file: %w", err)
		}
	}
	if err := os.Rename(fresh, path+done); err != nil {
		return nil, err
	}
	return s, finishSalvage(path)
}

// finishSalvage puts a book that is salvaged into its place, if there is one, and removes one that was not finished.
func finishSalvage(path string) error {
	if err := remove(path + half); err != nil {
		return err
	}
	if _, err := os.Stat(path + done); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, end := range beside { // SQLite would read those of the damaged book into the new one
		if err := os.Remove(path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.Rename(path+done, path)
}

// remove removes a book, if it is there.
func remove(path string) (err error) {
	for _, end := range append([]string{""}, beside...) {
		if e := os.Remove(path + end); !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// keep has a file under a second name, if it is there: as the same file, or as a copy where the disk knows no second names.
func keep(path, kept string) error {
	if err := os.Link(path, kept); err == nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(kept, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Sync(), to.Close())
}

// firstLine is the first line of a text that says something: SQLite begins with a headline.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "***") {
			return line
		}
	}
	return "unreadable"
}

// copyBook copies what can be read of a book to a new file, and returns what is lost.
func copyBook(ctx context.Context, path, fresh string, now time.Time) (losses []cost.Loss, err error) {
	from, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)&_pragma=writable_schema(1)") // tables that it knows can be read though others cannot
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }() // nothing is written to it
	from.SetMaxOpenConns(1)
	if err := closed(fresh); err != nil {
		return nil, err
	}
	to, err := dial(fresh)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := makeTables(ctx, to); err != nil {
		return nil, err
	}
	var has int
	_ = from.QueryRowContext(ctx, "SELECT 1 FROM sqlite_schema").Scan(&has) // it fails once where a part of the schema cannot be read
	if err := from.QueryRowContext(ctx, "PRAGMA user_version").Scan(&has); err == nil && has > version {
		return nil, fmt.Errorf("its schema is version %d, and this program knows versions up to %d: run the newer program", has, version)
	}
	c := &copier{ctx: ctx, from: from, to: to, now: now, known: from.QueryRowContext(ctx, "SELECT COUNT(sql) FROM sqlite_schema").Scan(&has) == nil}
	tables, err := c.tables()
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		if err := c.copy(t); err != nil {
			return nil, fmt.Errorf("copy what can be read to %s: %w", fresh, err)
		}
	}
	if losses, err = (&loser{book: &Book{db: to, path: fresh}, ctx: ctx, tables: tables, now: now}).find(); err != nil {
		return nil, err
	}
	_, err = to.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return losses, err
}
