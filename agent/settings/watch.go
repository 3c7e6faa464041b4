package settings

import (
	"context"
	"fmt"
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

// Watch gives what holds, at first and whenever it changes: when the label
// does, when a file comes, goes, or has other content under the same name (a
// ConfigMap that is edited), and when a link is turned. Where the new file is
// refused, the choice keeps the settings in force and says why in Err.
//
// A choice that nobody has read yet is replaced by the next. The channel is
// closed once ctx has ended and nothing runs any more.
//
// A file mounted by subPath never changes: the kubelet does not update it.
func Watch(ctx context.Context, o Options) <-chan Choice {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	out := make(chan Choice)
	go func() {
		defer close(out)
		w := &watcher{o: o, known: o.Dir == "" || o.Label == nil}
		w.run(ctx, out)
	}()
	return out
}

type watcher struct {
	o       Options
	files   *fsnotify.Watcher // nil: files are not watched
	dirs    []string          // what files watches
	label   string
	known   bool // label is: before that, nothing is chosen
	now     Choice
	chosen  bool    // now is something
	pending *Choice // not read yet
}

func (w *watcher) run(ctx context.Context, out chan<- Choice) {
	var events <-chan fsnotify.Event
	var errors <-chan error
	if w.o.Dir != "" || w.o.File != "" {
		files, err := fsnotify.NewWatcher()
		if err != nil {
			w.o.Log.Warn("configuration files are not watched; restart the agent after a change, or raise fs.inotify.max_user_instances", "error", err)
		} else {
			defer func() { _ = files.Close() }()
			w.files, events, errors = files, files.Events, files.Errors
		}
	}
	labels := w.o.Label
	if w.o.Dir == "" {
		labels = nil
	}
	settled := time.NewTimer(0)
	defer settled.Stop()
	for {
		send, next := out, Choice{}
		if w.pending == nil {
			send = nil
		} else {
			next = *w.pending
		}
		select {
		case <-ctx.Done():
			return
		case send <- next:
			w.pending = nil
		case label, ok := <-labels:
			if !ok {
				labels = nil
				continue
			}
			w.label, w.known = label, true
			w.choose()
		case <-settled.C:
			w.choose()
		case e := <-events:
			if e.Op != fsnotify.Chmod {
				settled.Reset(settle)
			}
		case err := <-errors: // such as an overflow: something was missed
			w.o.Log.Warn("watching configuration files", "error", err)
			settled.Reset(settle)
		}
	}
}

// choose reads, and lets go of what is the same. It watches before it reads, so
// that no change falls between.
func (w *watcher) choose() {
	w.follow()
	if !w.known {
		return
	}
	c := Read(w.o, w.label)
	if c.Err != nil && w.now.InForce {
		err := c.Err
		c = w.now
		c.Err = fmt.Errorf("%w; %s stays in force", err, c.Source)
	}
	if w.chosen && same(c, w.now) {
		return
	}
	w.now, w.chosen, w.pending = c, true, &c
}

// follow watches the folders where a change of Dir or File shows: their own,
// those that links lead to, and the nearest that is there.
func (w *watcher) follow() {
	if w.files == nil {
		return
	}
	var want []string
	if w.o.Dir != "" {
		want = folders(w.o.Dir)
	} else {
		want = trail(w.o.File)
	}
	slices.Sort(want)
	want = slices.Compact(want)
	for _, dir := range w.dirs {
		if !slices.Contains(want, dir) {
			_ = w.files.Remove(dir) // gone with the folder itself, mostly
		}
	}
	w.dirs = w.dirs[:0]
	for _, dir := range want {
		// Again even if it was there: a folder removed and made anew is another.
		if err := w.files.Add(dir); err != nil {
			w.o.Log.Warn("a folder of configurations is not watched; restart the agent after a change", "folder", dir, "error", err)
			continue
		}
		w.dirs = append(w.dirs, dir)
	}
}

// maxLinks is how many links in a row are followed, as by Linux.
const maxLinks = 40

// trail gives the folders of a file and of every link on the way to it.
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

// folders gives where dir really is, or else the nearest folder above it that
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
