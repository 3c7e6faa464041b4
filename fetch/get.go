package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// errSame is that a file is still the version that is there.
var errSame = errors.New("the file has not changed")

// passing is an error after which another try may do better.
type passing struct {
	error
	after time.Duration // that the server asks to wait; 0 is that it says nothing
}

func (p *passing) Unwrap() error { return p.error }

// local is an error of this machine: its disk is full, for one.
type local struct{ error }

func (l *local) Unwrap() error { return l.error }

// again calls try until it succeeds, or fails for good. Tries that bring something are not counted.
func (d *download) again(ctx context.Context, try func() (progress bool, err error)) error {
	for n, wait := 0, firstWait; ; wait *= 2 {
		progress, err := try()
		var p *passing
		if err == nil || ctx.Err() != nil || !errors.As(err, &p) {
			return err
		}
		if progress {
			n, wait = 0, firstWait
		}
		if n++; n >= mostTries {
			return fmt.Errorf("%w (%d tries)", err, n)
		}
		d.o.Log(err.Error() + "; trying again")
		if !d.o.Pause(ctx, min(max(wait, p.after), stall)) {
			return ctx.Err()
		}
	}
}

// one brings one file of the model; alone is that the source has no other.
func (d *download) one(ctx context.Context, f *file, alone bool) error {
	r, whole := d.folder.whole(f.path)
	if whole && f.tag != "" && f.tag == r.Tag {
		return d.keep(r)
	}
	archive := kindOf(f.path)
	if !alone {
		archive = ""
	}
	was := ""
	if whole && f.tag == "" {
		was = r.Tag
	}
	v, err := d.get(ctx, f, was)
	if errors.Is(err, errSame) {
		return d.keep(r)
	}
	if err != nil {
		return err
	}
	done := record{Path: f.path, Tag: v.Tag}
	if archive != "" {
		if done.Files, err = d.unpack(ctx, f.path, archive); err != nil {
			return err
		}
	} else {
		if err := d.folder.place(d.folder.part(f.path), f.path, 0o644); err != nil {
			return err
		}
		done.Files = []entry{{f.path, v.Size}}
	}
	if err := d.folder.complete(done); err != nil {
		return err
	}
	d.folder.drop(f.path)
	d.o.Log(fmt.Sprintf("%s: %s", f.path, size(v.Size)))
	return nil
}

// keep counts what an earlier download has brought.
func (d *download) keep(r record) error {
	var n int64
	for _, e := range r.Files {
		n += e.Size
	}
	d.mu.Lock()
	d.kept += n
	d.mu.Unlock()
	return d.came(n)
}

// get downloads a file into its part, until all of it is there. was is the version of the complete file that is there; if it still is that,
// the error is errSame.
func (d *download) get(ctx context.Context, f *file, was string) (v version, err error) {
	had, _ := d.folder.had(f.path)
	if err := d.came(had); err != nil {
		return v, err
	}
	wrong := 0
	err = d.again(ctx, func() (bool, error) {
		var n int64
		n, v, err = d.try(ctx, f, was)
		if errors.Is(err, errWrongSum) {
			if wrong++; wrong < 2 {
				return false, &passing{error: err}
			}
		}
		return n > 0, err
	})
	return v, err
}

var (
	errWrongSum = errors.New("the checksum is wrong")
	errStall    = fmt.Errorf("no byte has come for %s", stall)
	errRange    = errors.New("the server has less of it than is here")
)

// try goes on with a file, and returns how many bytes came.
func (d *download) try(ctx context.Context, f *file, was string) (n int64, v version, err error) {
	there, had := d.folder.had(f.path)
	from := there
	if from > 0 && f.tag != "" && had.Tag == f.tag && from == f.size {
		return 0, had, d.check(f, had) // only its name is missing
	}
	ask := had.Tag
	switch {
	case f.tag != "" && had.Tag != f.tag:
		from = 0
	case from > 0 && from == had.Size:
		from = -1 // all of it is there, if it still is that version
	case from == 0 && was != "":
		from, ask = -1, was
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(stall, func() { cancel(errStall) })
	defer watch.Stop()
	c, err := f.open(ctx, from, ask)
	switch {
	case errors.Is(err, errSame) && ask != was:
		return 0, had, d.check(f, had)
	case errors.Is(err, errRange):
		d.folder.drop(f.path)
		return 0, v, &passing{error: errors.Join(err, d.came(-there))}
	case err != nil && errors.Is(context.Cause(ctx), errStall):
		return 0, v, &passing{error: fmt.Errorf("download %s: %w", f.path, errStall)}
	case err != nil:
		return 0, v, err
	}
	defer c.body.Close()
	v = version{c.tag, c.size, had.Sum}
	if f.size >= 0 {
		v.Size = f.size
	}
	if c.from == 0 || had.Sum == "" {
		if v.Sum = c.sum.String(); f.sum != nil {
			v.Sum = f.sum.String()
		}
	}
	if c.size >= 0 && f.size >= 0 && c.size != f.size {
		return 0, v, fmt.Errorf("download %s: it has %d bytes, and the list says %d: it has changed; start the download again", f.path, c.size, f.size)
	}
	part, err := d.folder.begin(f.path, c.from, v)
	if err != nil {
		return 0, v, fmt.Errorf("write %s: %w", f.path, written(err))
	}
	if err := d.came(c.from - there); err != nil {
		_ = part.Close()
		return 0, v, err
	}
	n, err = d.copy(part, c, watch)
	if err != nil && errors.Is(context.Cause(ctx), errStall) {
		err = errStall
	}
	if end := part.Sync(); err == nil && end != nil {
		err = &local{fmt.Errorf("write %s: %w", f.path, written(end))}
	}
	if end := part.Close(); err == nil && end != nil {
		err = &local{fmt.Errorf("write %s: %w", f.path, written(end))}
	}
	got := c.from + n
	var here *local
	switch {
	case errors.As(err, &here):
		return n, v, err
	case err != nil:
		return n, v, &passing{error: fmt.Errorf("download %s: broken off after %s: %w", f.path, size(got), err)}
	case v.Size >= 0 && got != v.Size:
		return n, v, &passing{error: fmt.Errorf("download %s: broken off after %s of %s", f.path, size(got), size(v.Size))}
	}
	v.Size = got
	return n, v, d.check(f, v)
}

// copy writes what comes, and returns how much; an error of the disk or of a bound is a local one.
func (d *download) copy(to *os.File, c *content, watch *time.Timer) (n int64, err error) {
	buffer := make([]byte, 256<<10)
	for {
		got, err := c.body.Read(buffer)
		watch.Reset(stall)
		if got > 0 {
			if most := d.came(int64(got)); most != nil {
				return n, &local{most}
			}
			if _, bad := to.Write(buffer[:got]); bad != nil {
				return n, &local{fmt.Errorf("write the model: %w", written(bad))}
			}
			n += int64(got)
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// check compares a complete part with the checksum of its source.
func (d *download) check(f *file, v version) error {
	want := sumFrom(v.Sum)
	if want == nil {
		return nil
	}
	part, err := d.folder.root.Open(d.folder.part(f.path))
	if err != nil {
		return fmt.Errorf("read %s again: %w", f.path, err)
	}
	defer part.Close()
	got, err := want.of(part, v.Size)
	if err != nil {
		return fmt.Errorf("read %s again: %w", f.path, err)
	}
	if got != want.hex {
		d.folder.drop(f.path)
		_ = d.came(-v.Size)
		return fmt.Errorf("download %s: %w: its %s is %s, and the source says %s; if this stays, the file there is damaged", f.path, errWrongSum, want.name, got, want.hex)
	}
	return nil
}
