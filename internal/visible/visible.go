// Package visible shows text that others wrote without letting it do anything to the
// terminal: what moves the cursor, changes colors, hides or reorders letters is shown
// as an escape such as \x1b or \u202e. Berth's own control sequences are marked, and
// so told from others that look the same.
package visible

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Text is s with all that acts on a terminal, or cannot be seen, as escapes: control
// characters (C0, DEL, C1), format characters (of direction, of no width, and tags),
// separators of lines and paragraphs, and bytes that are not UTF-8. Line feeds and
// tabs stay.
func Text(s string) string { return replace(s, false) }

// Line is Text with line feeds and tabs as escapes too, so s stays one line and
// one cell of a table.
func Line(s string) string { return replace(s, true) }

// Short is the beginning of s, of at most most characters, and how many it leaves out.
func Short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := 0
	for i := range s {
		if n == most {
			return fmt.Sprintf("%s... [%d more]", s[:i], utf8.RuneCountInString(s[i:]))
		}
		n++
	}
	return s
}

// Under is Text, and puts the lines of s after the first below it, indented: none of
// them looks like a line of its own.
func Under(s, indent string) string {
	return strings.ReplaceAll(Text(s), "\n", "\n"+indent)
}

func replace(s string, line bool) string {
	if plain(s, line) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if own := marked(s[i:]); own > 0 {
			b.WriteString(s[i : i+own])
			i += own
			continue
		}
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !acts(r, line):
			b.WriteString(s[i : i+size])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// plain reports whether there is nothing to replace.
func plain(s string, line bool) bool {
	for i, r := range s {
		if acts(r, line) {
			return false
		}
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return false
			}
		}
	}
	return true
}

// acts reports whether a terminal shows something else than a letter for r.
func acts(r rune, line bool) bool {
	if r == '\n' || r == '\t' {
		return line
	}
	return r < 0x20 || r >= 0x7f && (unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || r == opening || r == closing)
}

// opening and closing are no characters in Unicode, and stand around a control sequence of
// Berth's own, with a secret of the process after the first.
const (
	opening = '\ufdd0'
	closing = '\ufdd1'
)

var head = string(opening) + rand.Text() //nolint:gochecknoglobals // the secret

// Own marks a control sequence as Berth's own. Only a Writer understands the mark.
func Own(sequence string) string { return head + sequence + string(closing) }

// marked is how long the marked sequence is with which s begins; 0 is that it does
// not begin with one.
func marked(s string) int {
	rest, ok := strings.CutPrefix(s, head)
	if !ok {
		return 0
	}
	if end := strings.IndexRune(rest, closing); end >= 0 {
		return len(head) + end + utf8.RuneLen(closing)
	}
	return 0
}

// Writer writes what it gets as Text does, and Berth's own sequences as they are. Its
// methods may be called at the same time.
type Writer struct {
	to   io.Writer
	mu   sync.Mutex
	rest []byte // the beginning of a letter whose end is to come
}

// NewWriter makes a Writer, unless w is one.
func NewWriter(w io.Writer) *Writer {
	if v, ok := w.(*Writer); ok {
		return v
	}
	return &Writer{to: w}
}

// To is what w writes to in the end: w itself, if it is no Writer.
func To(w io.Writer) io.Writer {
	if v, ok := w.(*Writer); ok {
		return v.to
	}
	return w
}

// Write implements io.Writer.
func (w *Writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := string(w.rest) + string(b)
	w.rest = nil
	if n := begun(text); n > 0 {
		w.rest = []byte(text[len(text)-n:])
		text = text[:len(text)-n]
	}
	if _, err := io.WriteString(w.to, unmark(Text(text))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush writes what is kept of a letter that never ended.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := io.WriteString(w.to, Text(string(w.rest)))
	w.rest = nil
	return err
}

// begun is how many bytes at the end of s begin a letter.
func begun(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		if tail := s[len(s)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRuneInString(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// unmark takes the marks away from around Berth's own sequences.
func unmark(s string) string {
	var b strings.Builder
	for {
		at := strings.Index(s, head)
		if at < 0 {
			b.WriteString(s)
			return b.String()
		}
		n := marked(s[at:])
		b.WriteString(s[:at])
		b.WriteString(s[at+len(head) : at+n-utf8.RuneLen(closing)])
		s = s[at+n:]
	}
}
