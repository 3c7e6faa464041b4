package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ErrExposed is returned for a folder that another account owns, or could put
// another folder in place of. Nothing in it is read, and nothing written.
var ErrExposed = errors.New("is not this account's alone")

// maxLinks bounds the symbolic links of one path, as the kernel does.
const maxLinks = 40

// Check refuses a folder in which this account's secrets would not be its own:
// ErrExposed says why. Whether others may enter the folder itself does not count:
// Lock keeps them out. A folder that does not exist is judged by where it would be.
func (d Dir) Check() error {
	return checkPath(string(d), "data folder "+d.Short())
}

// CheckParent refuses, with ErrExposed, to have something private made in a folder
// where another account could replace it. what is made there.
func CheckParent(folder, what string) error {
	return checkPath(filepath.Join(folder, "new"), what+" in "+folder)
}

// checkPath follows path from the root and looks at whatever decides where it leads:
// the folder at its end belongs to this account; the folders above it and symbolic
// links belong to it or to who owns the machine; and nobody else may rename what is
// in those folders.
func checkPath(path, what string) error {
	todo, links := split(path), 0
	for at := "/"; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // and so for what is below it
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if !trusted(owner(info)) {
				return fmt.Errorf("%s %w: %s is a symbolic link that belongs to %s, who could lead it elsewhere; choose another --dir", what, ErrExposed, next, account(owner(info)))
			}
			to, err := os.Readlink(next)
			if links++; err == nil && links > maxLinks {
				err = errors.New("too many symbolic links")
			}
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			if filepath.IsAbs(to) {
				at = "/"
			}
			todo = append(split(to), todo...)
			continue
		}
		if len(todo) == 0 {
			return checkOwn(next, info, what)
		}
		if err := checkAbove(next, info, what); err != nil {
			return err
		}
		at = next
	}
	return nil
}

// split is the names in a path.
func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// checkOwn refuses the end of a path where it is another account's.
func checkOwn(path string, info fs.FileInfo, what string) error {
	if !info.IsDir() {
		return fmt.Errorf("%s: %s is a file; choose another --dir", what, path)
	}
	if o := owner(info); o != os.Geteuid() {
		return fmt.Errorf("%s %w: it belongs to %s, and this is %s; run berth as that account, or choose another --dir", what, ErrExposed, account(o), account(os.Geteuid()))
	}
	return nil
}

// checkAbove refuses a folder on the way where another account could rename what is
// in it. In a folder with the sticky bit, such as /tmp, only the owner can.
func checkAbove(path string, info fs.FileInfo, what string) error {
	if o := owner(info); !trusted(o) {
		return fmt.Errorf("%s %w: %s belongs to %s, who could put another folder in its place; run berth as that account, or choose another --dir", what, ErrExposed, path, account(o))
	}
	if info.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o002 != 0:
		return fmt.Errorf("%s %w: everybody may write in %s, and so put another folder in its place; `chmod o-w %s`, or choose another --dir", what, ErrExposed, path, path)
	case mode&0o020 != 0 && !ownGroup(group(info)):
		return fmt.Errorf("%s %w: group %d may write in %s, and so put another folder in its place; `chmod g-w %s`, or choose another --dir", what, ErrExposed, group(info), path, path)
	}
	return nil
}

// trusted reports whether what belongs to uid is as good as this account's own: it is
// this account's, root's, or that of who owns the whole file system, as root's
// number may be another in a user namespace.
func trusted(uid int) bool {
	if uid == os.Geteuid() || uid == 0 {
		return true
	}
	root, err := os.Lstat("/")
	return err == nil && uid == owner(root)
}

// ownGroup reports whether a group has this account alone: the one that many
// systems give each account, with the account's number, and root's.
func ownGroup(gid int) bool {
	return gid == 0 || gid == os.Getegid() && gid == os.Geteuid()
}

func owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

func group(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Gid)
	}
	return -1
}

// links is how many names a file has.
func links(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Nlink)
	}
	return 1
}

// account is an account for people: its name and number.
func account(uid int) string {
	number := strconv.Itoa(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username + " (account " + number + ")"
	}
	return "account " + number
}
