package fetch

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"berth.dev/berth/core/serving"
	"berth.dev/berth/internal/pause"
)

// Bounds of a download where Options have none.
const (
	MostBytes = 1 << 40
	mostFiles = 100_000
	atOnce    = 4 // files
	sayEvery  = 10 * time.Second
	stall     = time.Minute // without a byte
	mostTries = 5           // in a row that bring nothing
	firstWait = time.Second // between them, doubling
)

// Options say how a model is downloaded.
type Options struct {
	// Getenv reads credentials and endpoints; nil is os.Getenv.
	Getenv func(string) string
	// Transport sends requests; nil is one with the proxies and authorities of the environment.
	Transport http.RoundTripper
	// MostBytes bounds the files together, and what an archive has in it; 0 is MostBytes.
	MostBytes int64
	// Log gets a line when something is done; nil is none.
	Log func(line string)
	// Pause waits between tries, and reports false if ctx ends before; nil is pause.For.
	Pause func(ctx context.Context, d time.Duration) bool
}

// Result is what a folder has after a download.
type Result struct {
	Files []string // below the folder, sorted, with slashes
	Bytes int64    // of them together
	Kept  int64    // bytes of them that were there before
}

// file is one file of a source.
type file struct {
	path string // below the folder, with slashes
	size int64  // -1 is not known
	tag  string // names its version; "" is that open says it
	sum  *sum   // nil is that the source has none, or that open says it
	// open reads it from a byte on. have is the tag of what is there: a source that cannot go on from that version begins at 0. With from -1
	// it opens the file only if its version is not have; else the error is errSame.
	open func(ctx context.Context, from int64, have string) (*content, error)
}

// content is an open file.
type content struct {
	body interface {
		Read([]byte) (int, error)
		Close() error
	}
	from int64 // the first byte
	size int64 // of the whole file; -1 is not known
	tag  string
	sum  *sum
}

// source lists the files of a model.
type source interface {
	list(ctx context.Context) ([]file, error)
}

// download is one call of Fetch.
type download struct {
	o      Options
	folder *folder
	src    string

	mu    sync.Mutex
	bytes int64 // guarded by mu; that have come, or were there
	kept  int64 // guarded by mu
	total int64 // guarded by mu; of the files whose size is known
}

// Fetch downloads the model at src, such as s3://BUCKET/PATH, into the folder dir, which it makes. A file that is an archive by its name
// (.tar, .tar.gz, .tgz, .zip), if it is the only one, is unpacked. Errors have one line, and no secret of src.
func Fetch(ctx context.Context, src, dir string, o Options) (*Result, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Pause == nil {
		o.Pause = pause.For
	}
	if o.MostBytes <= 0 {
		o.MostBytes = MostBytes
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	var err error
	if o.Getenv, err = configured(o.Getenv); err != nil {
		return nil, err
	}
	from, err := sourceOf(src, &o)
	if err != nil {
		return nil, err
	}
	f, err := openFolder(dir, src)
	if err != nil {
		return nil, err
	}
	defer f.close()
	d := &download{o: o, folder: f, src: src}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go d.report(ctx)
	return d.run(ctx, from)
}

// sourceOf returns what lists the files of src.
func sourceOf(src string, o *Options) (source, error) {
	p, fault := serving.PlaceOf(src)
	switch {
	case fault != nil:
		return nil, fmt.Errorf("%s", fault.Message)
	case src == "":
		return nil, fmt.Errorf("the source is empty; write one such as s3://BUCKET/PATH or https://HOST/FILE")
	}
	switch p.Scheme {
	case "http", "https":
		return webSource(src, o)
	case "s3":
		return s3Source(p, o)
	case "gs":
		return googleSource(p, o)
	case "hf":
		return hubSource(p, o)
	case "pvc":
		return nil, fmt.Errorf("%s is a volume of the cluster, which pods mount; there is nothing to download", src)
	case "oci":
		return nil, fmt.Errorf("%s is an image, which nodes pull and pods mount; there is nothing to download", src)
	}
	return nil, fmt.Errorf("%s:// cannot be downloaded; copy the model to s3, gs, hf, https, or a volume", p.Scheme)
}

// run downloads all files of a source, and brings the folder to what it has.
func (d *download) run(ctx context.Context, from source) (*Result, error) {
	var files []file
	if err := d.again(ctx, func() (progress bool, err error) { files, err = from.list(ctx); return false, err }); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no files; correct the path", bare(d.src))
	}
	if len(files) > mostFiles {
		return nil, fmt.Errorf("%s has more than %d files; name the folder of one model", bare(d.src), mostFiles)
	}
	for i := range files {
		if err := checkPath(files[i].path); err != nil {
			return nil, fmt.Errorf("%s: %w", bare(d.src), err)
		}
		d.total += max(files[i].size, 0)
	}
	if d.total > d.o.MostBytes {
		return nil, fmt.Errorf("%s has %s, and at most %s are downloaded", bare(d.src), size(d.total), size(d.o.MostBytes))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range files {
		group.Go(func() error { return d.one(ctx, &files[i], len(files) == 1) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out, err := d.folder.finish(files)
	if err != nil {
		return nil, err
	}
	out.Kept = d.kept
	return out, nil
}

// report says how far the download is, until ctx ends.
func (d *download) report(ctx context.Context) {
	for pause.For(ctx, sayEvery) {
		d.mu.Lock()
		bytes, total := d.bytes, d.total
		d.mu.Unlock()
		if total > 0 {
			d.o.Log(fmt.Sprintf("%s of %s", size(bytes), size(total)))
		} else {
			d.o.Log(size(bytes))
		}
	}
}

// came counts bytes, and reports an error once there are more than the most.
func (d *download) came(n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bytes += n; d.bytes > d.o.MostBytes {
		return fmt.Errorf("%s has more than %s, and no more is downloaded", bare(d.src), size(d.o.MostBytes))
	}
	return nil
}
