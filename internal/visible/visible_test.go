package visible_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"berth.dev/berth/internal/visible"
)

func TestText(t *testing.T) {
	for _, tt := range []struct{ name, in, text, line string }{
		{"letters", "größer 漢字 é ✓…", "größer 漢字 é ✓…", "größer 漢字 é ✓…"},
		{"line feeds and tabs", "a\tb\nc", "a\tb\nc", `a\tb\nc`},
		{"an escape sequence", "\x1b]0;title\x07\x1b[2J", `\x1b]0;title\x07\x1b[2J`, `\x1b]0;title\x07\x1b[2J`},
		{"a carriage return and a backspace", "a\r\bb", `a\r\x08b`, `a\r\x08b`},
		{"DEL and C1", "\u007f\u0085\u009b1m", `\u007f\u0085\u009b1m`, `\u007f\u0085\u009b1m`},
		{"C1 as a byte", "\x9b1m\xff", `\x9b1m\xff`, `\x9b1m\xff`},
		{"other directions", "a\u202eb\u2066c\u200f", `a\u202eb\u2066c\u200f`, `a\u202eb\u2066c\u200f`},
		{"no width", "a\u200b\u200d\ufeff\u00ad\u2060", `a\u200b\u200d\ufeff\u00ad\u2060`, `a\u200b\u200d\ufeff\u00ad\u2060`},
		{"other separators", "a\u2028b\u2029", `a\u2028b\u2029`, `a\u2028b\u2029`},
		{"tags", "\U000e0041", `\U000e0041`, `\U000e0041`},
		{"the character of replacement", "\ufffd", "\ufffd", "\ufffd"},
		{"somebody's marks", "\ufdd0\x1b[1m\ufdd1", `\ufdd0\x1b[1m\ufdd1`, `\ufdd0\x1b[1m\ufdd1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := visible.Text(tt.in); got != tt.text {
				t.Errorf("Text gives %q, want %q", got, tt.text)
			}
			if got := visible.Line(tt.in); got != tt.line {
				t.Errorf("Line gives %q, want %q", got, tt.line)
			}
		})
	}
	if got, want := visible.Under("a\nerror: \x1bb", "  "), "a\n  error: \\x1bb"; got != want {
		t.Errorf("Under gives %q, want %q", got, want)
	}
}

func TestShort(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""}, {"abcde", "abcde"}, {"abcdef", "abcde... [1 more]"}, {"größe", "größe"}, {"größer als", "größe... [5 more]"}, {"\xff\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff\xff... [2 more]"},
	} {
		if got := visible.Short(tt.in, 5); got != tt.want {
			t.Errorf("Short(%q) gives %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	w := visible.NewWriter(&b)
	if visible.NewWriter(w) != w || visible.To(w) != &b || visible.To(&b) != &b {
		t.Error("a Writer is wrapped again, or does not tell where it writes")
	}
	// A letter may be cut between two calls, and one that never ends is shown at the end.
	for _, part := range []string{"é"[:1], "é"[1:], visible.Own("\r\x1b[K") + visible.Line("x\x1b[K") + visible.Own("\x1b[m"), "\u202e"[:2]} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("Write gives %d, %v", n, err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
	if got, want := b.String(), "é\r\x1b[Kx\\x1b[K\x1b[m"+`\xe2\x80`; got != want {
		t.Errorf("it writes %q, want %q", got, want)
	}
}

func FuzzWriter(f *testing.F) {
	f.Add("a\x1b[2J\u202e", 3)
	f.Add("\xff\u009b漢", 5)
	f.Fuzz(func(t *testing.T, s string, cut int) {
		var b bytes.Buffer
		w := visible.NewWriter(&b)
		cut = min(max(cut, 0), len(s))
		_, first := w.Write([]byte(s[:cut]))
		_, second := w.Write([]byte(s[cut:]))
		if first != nil || second != nil || w.Flush() != nil {
			t.Fatal("a buffer refuses")
		}
		if got := b.String(); got != visible.Text(s) || !utf8.ValidString(got) || visible.Text(got) != got || strings.ContainsAny(got, "\x1b\r\u009b\u202e") {
			t.Errorf("%q cut at %d is written as %q", s, cut, got)
		}
	})
}
