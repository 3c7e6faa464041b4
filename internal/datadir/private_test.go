package datadir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth.dev/berth/internal/datadir"
)

// nobody is an account that is not the one that runs the tests.
const nobody = 65534

// folder makes a folder DIR/parent/data with modes that a umask does not change, and
// a Berth data folder in it if state is set.
func folder(t *testing.T, parent, data fs.FileMode) datadir.Dir {
	t.Helper()
	above := filepath.Join(t.TempDir(), "parent")
	d := datadir.Dir(filepath.Join(above, "data"))
	for _, err := range []error{os.Mkdir(above, 0o700), os.Mkdir(string(d), 0o700), os.Chmod(string(d), data), os.Chmod(above, parent)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// write makes files in a folder with a mode, with the folders above them.
func write(t *testing.T, mode fs.FileMode, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOthersAreKeptOutOfAFolder(t *testing.T) {
	d := folder(t, 0o755, 0o777)
	if err := d.WriteState(datadir.State{}); err != nil {
		t.Fatal(err)
	}
	secrets := []string{d.Join("kubeconfig"), d.Join("pki", "ca.key"), d.Join("log", "berth.log"), d.Join("etcd", "member", "snap", "db")}
	write(t, 0o666, secrets...)
	write(t, 0o755, d.Join("volumes", "home", "run.sh")) // of a process that stands for a container
	release, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	release()
	err = filepath.WalkDir(string(d), func(path string, e fs.DirEntry, err error) error {
		info, err2 := os.Lstat(path)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 && !strings.Contains(path, "volumes/") {
			t.Errorf("%s has mode %v: others may use it", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	again()
	if info, err := os.Stat(d.Join("volumes", "home", "run.sh")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("a program in a volume lost its mode: %v, %v", info.Mode(), err)
	}
}

func TestAFolderOfSomethingElseKeepsItsMode(t *testing.T) {
	d := folder(t, 0o755, 0o755)
	write(t, 0o644, d.Join("thesis.tex"))
	if _, err := d.Lock(); !errors.Is(err, datadir.ErrNotOurs) {
		t.Errorf("Lock() = %v, want ErrNotOurs", err)
	}
	for name, want := range map[string]fs.FileMode{"": 0o755, "thesis.tex": 0o644} {
		if info, err := os.Stat(d.Join(name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q has mode %v, want %v as before", name, info.Mode(), want)
		}
	}
	if _, err := os.Stat(d.Join("lock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock file was left in it: %v", err)
	}
}

func TestFoldersThatAreNotThisAccountsAlone(t *testing.T) {
	root := os.Geteuid() == 0
	for _, tt := range []struct {
		name  string
		chown bool // needs root
		make  func(t *testing.T) datadir.Dir
		want  string // in the error; "" is that it is taken
	}{
		{"one that does not exist", false, func(t *testing.T) datadir.Dir {
			return datadir.Dir(filepath.Join(t.TempDir(), "a", "b"))
		}, ""},
		{"one in a folder like /tmp", false, func(t *testing.T) datadir.Dir {
			return folder(t, 0o777|fs.ModeSticky, 0o700)
		}, ""},
		{"one behind a link of one's own", false, func(t *testing.T) datadir.Dir {
			d := folder(t, 0o755, 0o755)
			return link(t, string(d), filepath.Join(t.TempDir(), "link"), -1)
		}, ""},
		{"one that everybody may replace", false, func(t *testing.T) datadir.Dir {
			return folder(t, 0o777, 0o700)
		}, "everybody may write in "},
		{"one that would be made where everybody may replace it", false, func(t *testing.T) datadir.Dir {
			return datadir.Dir(filepath.Join(string(folder(t, 0o755, 0o777)), "new"))
		}, "everybody may write in "},
		{"one behind a link into such a place", false, func(t *testing.T) datadir.Dir {
			return link(t, string(folder(t, 0o777, 0o700)), filepath.Join(t.TempDir(), "link"), -1)
		}, "everybody may write in "},
		{"a file", false, func(t *testing.T) datadir.Dir {
			d := folder(t, 0o755, 0o700)
			write(t, 0o600, d.Join("file"))
			return datadir.Dir(d.Join("file"))
		}, "is a file; choose another --dir"},
		{"one in which others could write, with a file that has another name elsewhere", false, func(t *testing.T) datadir.Dir {
			d := folder(t, 0o755, 0o777)
			elsewhere := filepath.Join(t.TempDir(), "mine")
			write(t, 0o600, elsewhere)
			if err := errors.Join(d.WriteState(datadir.State{}), os.Mkdir(d.Join("log"), 0o700), os.Link(elsewhere, d.Join("log", "berth.log"))); err != nil {
				t.Fatal(err)
			}
			return d
		}, "log/berth.log in it has another name somewhere; remove that"},
		{"another account's", true, func(t *testing.T) datadir.Dir {
			return owned(t, folder(t, 0o755, 0o777), "")
		}, "it belongs to "},
		{"one in another account's folder", true, func(t *testing.T) datadir.Dir {
			return owned(t, folder(t, 0o755, 0o700), "..")
		}, "could put another folder in its place; run berth as that account"},
		{"one that a shared group may replace", true, func(t *testing.T) datadir.Dir {
			d := folder(t, 0o775, 0o700)
			if err := os.Chown(filepath.Dir(string(d)), -1, nobody); err != nil {
				t.Fatal(err)
			}
			return d
		}, "group 65534 may write in "},
		{"one behind another account's link", true, func(t *testing.T) datadir.Dir {
			return link(t, string(folder(t, 0o755, 0o700)), filepath.Join(t.TempDir(), "link"), nobody)
		}, "is a symbolic link that belongs to "},
		{"one in which another account has left a key", true, func(t *testing.T) datadir.Dir {
			d := folder(t, 0o755, 0o777)
			write(t, 0o666, d.Join("pki", "ca.key"))
			return owned(t, d, "pki/ca.key", d.WriteState(datadir.State{}))
		}, "others could write in it, and "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.chown && !root {
				t.Skip("only root can give a file to another account")
			}
			d := tt.make(t)
			release, err := d.Lock()
			if err == nil {
				release()
			}
			if tt.want == "" {
				if err != nil {
					t.Errorf("Lock() = %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Lock() = %v\nwant %q in it", err, tt.want)
			}
			if _, err := os.Lstat(d.Join("lock")); err == nil {
				t.Error("it is locked although it was refused")
			}
			if tt.chown && !errors.Is(err, datadir.ErrExposed) {
				t.Errorf("Lock() = %v, want ErrExposed", err)
			}
		})
	}
}

// owned returns a file in a folder to another account.
func owned(t *testing.T, d datadir.Dir, name string, errs ...error) datadir.Dir {
	t.Helper()
	if err := errors.Join(append(errs, os.Chown(d.Join(name), nobody, nobody))...); err != nil {
		t.Fatal(err)
	}
	return d
}

// link makes a symbolic link, of another account where uid is not -1.
func link(t *testing.T, to, at string, uid int) datadir.Dir {
	t.Helper()
	if err := errors.Join(os.Symlink(to, at), os.Lchown(at, uid, -1)); err != nil {
		t.Fatal(err)
	}
	return datadir.Dir(at)
}

// What is made in a folder is closed, whatever the umask is.
func TestTheUmaskOpensNothing(t *testing.T) {
	d := datadir.Dir(filepath.Join(t.TempDir(), "a", "data"))
	defer syscall.Umask(syscall.Umask(0))
	release, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := d.WriteState(datadir.State{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{string(d), d.Join("lock"), d.Join("state.json")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
}
