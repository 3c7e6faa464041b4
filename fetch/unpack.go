package fetch

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// kindOf is which archive a file is, by its name: tar, tar.gz, or zip; "" is none.
func kindOf(name string) string {
	name = strings.ToLower(name)
	switch {
	case strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz"):
		return "tar.gz"
	case strings.HasSuffix(name, ".tar"):
		return "tar"
	case strings.HasSuffix(name, ".zip"):
		return "zip"
	}
	return ""
}

// unpacking is an archive that is being unpacked.
type unpacking struct {
	d    *download
	ctx  context.Context //nolint:containedctx // of this one call
	name string
	to   string // the folder below own in which the files are until all are there
	out  []packed
	seen map[string]bool
	left int64 // bytes that may come
}

type packed struct {
	entry
	mode os.FileMode
}

// unpack unpacks the archive in a part, and returns its files. They get their names when all of them are there.
func (d *download) unpack(ctx context.Context, name, kind string) ([]entry, error) {
	u := &unpacking{d: d, ctx: ctx, name: name, to: strings.TrimSuffix(d.folder.part(name), ".part") + ".unpacked", seen: map[string]bool{}, left: d.o.MostBytes}
	root := d.folder.root
	if err := root.RemoveAll(u.to); err != nil {
		return nil, fmt.Errorf("remove what is left of %s: %w", name, err)
	}
	part, err := root.Open(d.folder.part(name))
	if err != nil {
		return nil, fmt.Errorf("open archive %s: %w", name, err)
	}
	defer part.Close()
	if kind == "zip" {
		err = u.zip(part)
	} else {
		err = u.tar(part, kind == "tar.gz")
	}
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", name, err)
	}
	if len(u.out) == 0 {
		return nil, fmt.Errorf("unpack %s: the archive has no files", name)
	}
	files := make([]entry, len(u.out))
	for i, p := range u.out {
		if err := d.folder.place(u.to+"/"+p.Path, p.Path, p.mode); err != nil {
			return nil, err
		}
		files[i] = p.entry
	}
	return files, nil
}

func (u *unpacking) tar(part io.Reader, zipped bool) error {
	if zipped {
		z, err := gzip.NewReader(part)
		if err != nil {
			return fmt.Errorf("the archive is not a gzip file: %w", err)
		}
		part = z
	}
	for r := tar.NewReader(part); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, part) // the checksum of gzip is at the end
			return err
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return fmt.Errorf("the archive is not a whole tar file: %w", err)
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = u.file(h.Name, h.FileInfo().Mode(), r)
		case tar.TypeDir:
			err = u.folder(h.Name)
		case tar.TypeXGlobalHeader:
			err = nil
		default:
			err = fmt.Errorf("%q is a link or a device, which is not unpacked; pack the file itself (tar -h)", short(h.Name))
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacking) zip(part *os.File) error {
	info, err := part.Stat()
	if err != nil {
		return err
	}
	r, err := zip.NewReader(part, info.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return fmt.Errorf("the archive is not a whole zip file: %w", err)
	}
	for _, f := range r.File {
		switch mode := f.Mode(); {
		case mode.IsDir():
			err = u.folder(f.Name)
		case !mode.IsRegular():
			err = fmt.Errorf("%q is a link or a device, which is not unpacked; pack the file itself", short(f.Name))
		default:
			err = u.zipped(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacking) zipped(f *zip.File) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	return u.file(f.Name, f.Mode(), r)
}

// folder checks the name of a folder. A folder without files is left out.
func (u *unpacking) folder(name string) error {
	if name = inside(name); name == "." {
		return nil
	}
	return checkPath(name)
}

// file writes one file of the archive.
func (u *unpacking) file(name string, mode os.FileMode, r io.Reader) error {
	name = inside(name)
	if err := checkPath(name); err != nil {
		return err
	}
	if err := u.ctx.Err(); err != nil {
		return err
	}
	if u.seen[name] {
		return fmt.Errorf("the archive has %q twice", short(name))
	}
	if u.seen[name] = true; len(u.seen) > mostFiles {
		return fmt.Errorf("the archive has more than %d files", mostFiles)
	}
	root, to := u.d.folder.root, u.to+"/"+name
	if err := root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return fmt.Errorf("make the folder of %q: %w", short(name), written(err))
	}
	out, err := root.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write %q: %w", short(name), written(err))
	}
	n, err := io.Copy(out, io.LimitReader(r, u.left+1))
	if end := out.Sync(); err == nil {
		err = end
	}
	if end := out.Close(); err == nil {
		err = end
	}
	if err != nil {
		return fmt.Errorf("write %q: %w", short(name), written(err))
	}
	if u.left -= n; u.left < 0 {
		return fmt.Errorf("the archive has more than %s in it, and no more is unpacked", size(u.d.o.MostBytes))
	}
	if mode &= 0o111; mode != 0 {
		mode = 0o111
	}
	u.out = append(u.out, packed{entry{name, n}, 0o644 | mode})
	return nil
}

// inside is a name of an archive as Fetch writes names: "./a" and "a/" are "a".
func inside(name string) string {
	for strings.HasPrefix(name, "./") {
		name = name[2:]
	}
	name = strings.TrimRight(name, "/")
	if name == "" {
		return "."
	}
	return name
}
