package nvml

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// protocol is the version of the lines between parent and child. Both come from
// one release, and the child says its own first.
const protocol = 3

// maxLine bounds a line; a CDI specification is the longest, at about 0.2 MB.
const maxLine = 16 << 20

// The calls of a request.
const (
	callSnapshot     = "snapshot"
	callSamples      = "samples"
	callMIGMode      = "migMode"
	callPartitionMIG = "partitionMIG"
	callMemoryLimit  = "memoryLimit"
	callExclusive    = "exclusive"
	callProbe        = "probe"
	callCDI          = "cdi"
)

// request is a line from parent to child.
type request struct {
	ID       int64    `json:"id"`
	Call     string   `json:"call"`
	UUID     string   `json:"uuid,omitempty"`
	On       bool     `json:"on,omitempty"`
	Profiles []string `json:"profiles,omitempty"`
	Cgroup   string   `json:"cgroup,omitempty"`
	Bytes    int64    `json:"bytes,omitempty"`

	More []Measure `json:"more,omitempty"`
}

// answer is a line from child to parent: with ID the answer to that request;
// without, one of Hello, Event and Changed.
type answer struct {
	ID int64 `json:"id,omitempty"`

	Hello   int    `json:"hello,omitempty"` // the child's protocol, and that it is ready
	Event   *Event `json:"event,omitempty"`
	Changed bool   `json:"changed,omitempty"`

	Error    string          `json:"error,omitempty"`
	Code     Error           `json:"code,omitempty"` // of NVML, within Error
	Snapshot *Snapshot       `json:"snapshot,omitempty"`
	Samples  packed          `json:"samples,omitempty"`
	Reset    bool            `json:"reset,omitempty"`
	CDI      json.RawMessage `json:"cdi,omitempty"`
}

// remoteError is an error that came over the wire. It keeps NVML's code, so
// that errors.Is works as in the child.
type remoteError struct {
	text string
	code Error
}

func (e *remoteError) Error() string { return e.text }

func (e *remoteError) Unwrap() error {
	if e.code == 0 {
		return nil
	}
	return e.code
}

// fail writes an error into an answer.
func (a *answer) fail(err error) {
	a.Error = err.Error()
	a.Code = codeOf(err)
}

// err reads it back.
func (a *answer) err() error {
	if a.Error == "" {
		return nil
	}
	return &remoteError{text: a.Error, code: a.Code}
}

// lines reads one JSON value a line.
type lines struct {
	r    *bufio.Reader
	long []byte // of a line longer than the reader's buffer
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10)} }

// next reads a line into v. io.EOF is the end; half a line at the end is
// io.ErrUnexpectedEOF.
func (l *lines) next(v any) error {
	l.long = l.long[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if l.long = append(l.long, part...); len(l.long) > maxLine {
				return fmt.Errorf("a line of more than %d bytes", maxLine)
			}
			continue
		case errors.Is(err, io.EOF) && len(l.long)+len(part) > 0:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		line := part
		if len(l.long) > 0 {
			l.long = append(l.long, part...)
			line = l.long
		}
		if err := json.Unmarshal(line, v); err != nil {
			return fmt.Errorf("line %.80q: %w", bytes.TrimSpace(line), err)
		}
		return nil
	}
}

// writeLine writes v and a line end in one Write.
func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
