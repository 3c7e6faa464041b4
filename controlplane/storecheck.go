package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
)

// checkStore looks at the files of a store before etcd opens them: etcd answers
// some damage by panicking on a separate goroutine, which ends the process
// without a word, and waits forever where its log is gone. It opens the
// database for reading and reads the root of every bucket, no more.
func checkStore(dir string) (err error) {
	db := filepath.Join(dir, "member", "snap", "db")
	if _, err := os.Stat(db); errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was stored yet
	}
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil {
		return err
	}
	if len(logs) == 0 {
		return fmt.Errorf("its log is missing: no *.wal in %s", filepath.Join(dir, "member", "wal"))
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a truncated file faults when its map is read
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s is damaged: %v", db, r)
		}
	}()
	b, err := bolt.Open(db, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("%s is damaged: %w", db, err)
	}
	defer b.Close()
	return b.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(_ []byte, bucket *bolt.Bucket) error {
			bucket.Cursor().First()
			return nil
		})
	})
}
