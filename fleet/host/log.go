package host

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// Bounds of one run's log. What is older is dropped.
const (
	logLines   = 2000
	logBytes   = 512 << 10
	logFile    = 4 * logBytes // the file is rewritten with what is kept when it is longer
	longest    = 16 << 10     // bytes of a line; a longer one is cut in two
	timeFormat = "2006-01-02T15:04:05.000000000Z"
)

// Line is one line that a process printed, without its newline.
type Line struct {
	At   time.Time
	Text string
}

// output is what one run has printed: its last lines in memory, and in a file
// for after a restart. The file has the form of container runtimes: time,
// stream, F for a full line, text.
type output struct {
	mu    sync.Mutex
	path  string
	file  *os.File // nil where it cannot be written
	size  int      // of the file
	lines []Line
	bytes int // of lines
	part  []byte
}

// newOutput makes an empty log. Without its file it still keeps its last lines.
func newOutput(path string) *output {
	o := &output{path: path}
	o.file, _ = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	return o
}

// write takes what a process printed at a time.
func (o *output) write(b []byte, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 && len(o.part)+len(b) < longest {
			o.part = append(o.part, b...)
			return
		}
		end, next := i, i+1
		if room := longest - len(o.part); i < 0 || i > room {
			end, next = room, room
		}
		o.add(Line{At: at, Text: strings.TrimSuffix(string(o.part)+string(b[:end]), "\r")})
		o.part, b = o.part[:0], b[next:]
	}
}

// add keeps one line. Lines of one moment get times that differ, so a
// reader can go on after any of them.
func (o *output) add(l Line) {
	if n := len(o.lines); n > 0 && !l.At.After(o.lines[n-1].At) {
		l.At = o.lines[n-1].At.Add(time.Nanosecond)
	}
	o.lines = append(o.lines, l)
	o.bytes += len(l.Text)
	drop := 0
	for len(o.lines)-drop > logLines || o.bytes > logBytes {
		o.bytes -= len(o.lines[drop].Text)
		drop++
	}
	if o.lines = o.lines[drop:]; cap(o.lines) > 4*logLines {
		o.lines = append(make([]Line, 0, 2*logLines), o.lines...)
	}
	if o.file == nil {
		return
	}
	if o.size > logFile {
		o.rewrite()
		return
	}
	n, _ := o.file.WriteString(format(l)) // a full disk costs the file, not the process
	o.size += n
}

// rewrite leaves in the file what is in memory.
func (o *output) rewrite() {
	var b strings.Builder
	for _, l := range o.lines {
		b.WriteString(format(l))
	}
	if o.file.Truncate(0) != nil {
		return
	}
	o.size, _ = o.file.WriteAt([]byte(b.String()), 0)
	_, _ = o.file.Seek(int64(o.size), 0)
}

func format(l Line) string {
	return l.At.UTC().Format(timeFormat) + " stdout F " + l.Text + "\n"
}

// close ends the log: a last line without its newline counts.
func (o *output) close(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.part) > 0 {
		o.add(Line{At: at, Text: string(o.part)})
		o.part = nil
	}
	if o.file != nil {
		_ = o.file.Close()
		o.file = nil
	}
}

// all returns the lines that are kept, oldest first.
func (o *output) all() []Line {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]Line(nil), o.lines...)
}

// readOutput reads the log of a run that is over from its file; no file is no
// line.
func readOutput(path string) ([]Line, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a container's log: %w", err)
	}
	defer f.Close()
	var out []Line
	s := bufio.NewScanner(f)
	s.Buffer(make([]byte, 4096), 2*longest)
	for s.Scan() {
		stamp, rest, ok := strings.Cut(s.Text(), " stdout F ")
		at, err := time.Parse(timeFormat, stamp)
		if !ok || err != nil {
			continue // the process was killed while it wrote this line
		}
		out = append(out, Line{At: at, Text: rest})
	}
	return out[max(0, len(out)-logLines):], nil
}
