// Package input reads files and streams that others give, up to a bound: a file may
// be /dev/zero, and a stream may have no end. It does not parse what it reads.
package input

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Bounds of what is read whole, in bytes.
const (
	// Config is for what people write and a ConfigMap or a Secret can hold.
	Config = 1 << 20
	// State is for what programs write on a node and this process reads again.
	State = 64 << 20
)

// ErrTooLarge is wrapped by the errors for input beyond its bound.
var ErrTooLarge = errors.New("too large")

// ReadFile is os.ReadFile of at most most bytes. The error for more names the file and
// the bound, and wraps ErrTooLarge.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	return Read(path, f, most)
}

// Read is io.ReadAll of at most most bytes. name stands for r in errors; that for more
// wraps ErrTooLarge.
func Read(name string, r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, tooLarge(name, most)
	}
	return data, nil
}

// Bounded is r whose reads fail with an error that wraps ErrTooLarge once more than most
// bytes have come. It is for what is parsed as it is read.
func Bounded(name string, r io.Reader, most int64) io.Reader {
	return &bounded{name: name, r: r, most: most, left: most}
}

type bounded struct {
	name       string
	r          io.Reader
	most, left int64
}

// Read implements io.Reader. More than the most is an error.
func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if int64(n) > b.left {
		n, err = int(b.left), tooLarge(b.name, b.most)
	}
	b.left -= int64(n)
	return n, err
}

func tooLarge(name string, most int64) error {
	return fmt.Errorf("%s is %w: more than %s", name, ErrTooLarge, size(most))
}

// size writes a bound, in MiB where it is whole MiB.
func size(n int64) string {
	if n > 0 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
