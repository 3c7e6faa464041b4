package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The modes of others: what any account but the owner may do with a file, and what
// of that changes it.
const (
	others      fs.FileMode = 0o077
	othersWrite fs.FileMode = 0o022
)

// theirs are the folders of processes that stand for containers: what is in there has
// the modes that those want.
var theirs = map[string]bool{"volumes": true, "host": true}

// keepOut takes from everybody else what they may do with the folder, and then with
// what is in it. It refuses a folder, with ErrExposed, in which others have left
// something while they could.
func (d Dir) keepOut() error {
	f, err := os.Open(string(d))
	if err != nil {
		return fmt.Errorf("data folder %s: %w", d, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("data folder %s: %w", d, err)
	}
	if err := checkOwn(string(d), info, "data folder "+d.Short()); err != nil {
		return err
	}
	was := info.Mode().Perm()
	if was&others != 0 {
		if err := f.Chmod(was &^ others); err != nil {
			return fmt.Errorf("keep others out of data folder %s: %w", d, err)
		}
	}
	err = filepath.WalkDir(string(d), func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == string(d) {
			return err
		}
		return d.keepOutOf(path, e, was&othersWrite != 0)
	})
	if err != nil && !errors.Is(err, ErrExposed) {
		return fmt.Errorf("keep others out of data folder %s: %w", d, err)
	}
	return err
}

// keepOutOf takes from everybody else what they may do with one file in the folder.
// open says that others could write in the folder until now.
func (d Dir) keepOutOf(path string, e fs.DirEntry, open bool) error {
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // who holds the folder has removed it
	}
	if err != nil {
		return err
	}
	if why := planted(info); open && why != "" {
		return fmt.Errorf("data folder %s %w: others could write in it, and %s in it %s; remove that, or choose another --dir", d.Short(), ErrExposed, path, why)
	}
	if mode := info.Mode(); mode.Perm()&others != 0 && mode&fs.ModeSymlink == 0 {
		if err := os.Chmod(path, mode.Perm()&^others); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if top, err := filepath.Rel(string(d), path); err == nil && theirs[top] && info.IsDir() && !open {
		return fs.SkipDir
	}
	return nil
}

// planted says why a file may be another account's work: "belongs to ..."; "" is that
// it is not.
func planted(info fs.FileInfo) string {
	switch o := owner(info); {
	case o != os.Geteuid():
		return "belongs to " + account(o)
	case info.Mode().IsRegular() && links(info) > 1:
		return "has another name somewhere"
	}
	return ""
}
