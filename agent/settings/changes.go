package settings

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long files are left alone after a change, so that an editor's
// several writes are read once.
const settle = 20 * time.Millisecond

// Changes tells when a file, or a folder with its files, may have changed: once
// at first, and then after it comes, goes, is written, or a link on the way to
// it is turned. The channel holds at most one value. It is closed when ctx has
// ended and nothing runs any longer. Where files cannot be watched, log is told,
// and nothing comes after the first value.
//
// A file mounted by subPath never changes: the kubelet does not update it.
func Changes(ctx context.Context, log *slog.Logger, path string) <-chan struct{} {
	t := &tracker{path: path, log: log, out: make(chan struct{}, 1)}
	files, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("configuration files are not watched; restart the agent after a change, or raise fs.inotify.max_user_instances", "error", err)
		t.out <- struct{}{}
		context.AfterFunc(ctx, func() { close(t.out) })
		return t.out
	}
	t.files = files
	go func() {
		defer close(t.out)
		defer func() { _ = files.Close() }()
		t.run(ctx)
	}()
	return t.out
}

type tracker struct {
	path  string
	log   *slog.Logger
	out   chan struct{}
	files *fsnotify.Watcher
	dirs  []string // what files watches
}

func (t *tracker) run(ctx context.Context) {
	settled := time.NewTimer(0)
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-t.files.Events:
			if e.Op != fsnotify.Chmod {
				settled.Reset(settle)
			}
		case err := <-t.files.Errors: // such as an overflow: something was missed
			t.log.Warn("watching configuration files", "error", err)
			settled.Reset(settle)
		case <-settled.C:
			t.follow() // before the reader reads, so that no change falls between
			select {
			case t.out <- struct{}{}:
			default:
			}
		}
	}
}

// follow watches the folders where a change shows. It looks again after that: what
// came or was turned between the look and the watch raised no event.
func (t *tracker) follow() {
	want := t.places()
	for range maxLinks { // more than that, and something else will be heard of it
		t.watch(want)
		now := t.places()
		if slices.Equal(now, want) {
			return
		}
		want = now
	}
}

// places returns the folders where a change shows, sorted: the path's own, those that
// links lead to, and the nearest that is there.
func (t *tracker) places() []string {
	want := trail(t.path)
	if info, err := os.Stat(t.path); err == nil && info.IsDir() {
		want = append(want, folders(t.path)...)
	}
	slices.Sort(want)
	return slices.Compact(want)
}

// watch watches these folders and no others.
func (t *tracker) watch(want []string) {
	for _, dir := range t.dirs {
		if !slices.Contains(want, dir) {
			_ = t.files.Remove(dir) // gone with the folder itself, mostly
		}
	}
	t.dirs = t.dirs[:0]
	for _, dir := range want {
		// Again even if it was there: a folder removed and made again is another.
		if err := t.files.Add(dir); err != nil {
			t.log.Warn("a configuration directory is not watched; restart the agent after a change", "folder", dir, "error", err)
			continue
		}
		t.dirs = append(t.dirs, dir)
	}
}

// maxLinks is how many links in a row are followed, as by Linux.
const maxLinks = 40

// trail returns the folders of a file and of every link on the way to it.
func trail(path string) []string {
	var out []string
	for range maxLinks {
		dir := filepath.Dir(path)
		out = append(out, folders(dir)...)
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		path = to
	}
	return out
}

// folders returns where dir really is, or else the nearest folder above it that
// is there, and the folders in which links on its path can be turned.
func folders(dir string) []string {
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
	var out []string
	add := func(dir string) {
		if at, err := filepath.EvalSymlinks(dir); err == nil {
			out = append(out, at)
		}
	}
	add(dir)
	for up := filepath.Dir(dir); up != dir; dir, up = up, filepath.Dir(up) {
		if info, err := os.Lstat(dir); err == nil && info.Mode()&os.ModeSymlink != 0 {
			add(up)
		}
	}
	return out
}
