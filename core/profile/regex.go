package profile

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// longestRegex bounds a regex, in bytes.
const longestRegex = 4096

// What Python's classes stand for in text; Go's own are ASCII.
const (
	word     = `_\p{L}\p{N}`
	space    = `\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}`
	noSpace  = `\x00-\x08\x0e-\x1b\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}`
	noRegexp = "Berth's regexes run in linear time and have none; write it without"
)

// Regex compiles a regex of Python's for texts of one line. It matches where
// Python's re.match does: at the start of the text, and not to its end unless the
// regex says so. What needs backtracking (a look around, a reference back, an
// atomic group or a condition) is refused with the reason, and so is what Python
// refuses. \b looks at ASCII letters only.
//
// Source: the section Regular Expression Syntax of Python's re module.
func Regex(text string) (*regexp.Regexp, error) {
	if len(text) > longestRegex {
		return nil, fmt.Errorf("a regex of %d bytes; at most %d are read", len(text), longestRegex)
	}
	t := translator{rest: text}
	if err := t.all(); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	re, err := regexp.Compile(`\A(?:` + t.out.String() + `)`)
	if err != nil {
		return nil, fmt.Errorf("%q does not compile: %s", text, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return re, nil
}

// translator turns a regex of Python's into one of Go's.
type translator struct {
	rest string
	out  strings.Builder
}

// take takes the next n bytes.
func (t *translator) take(n int) string {
	s := t.rest[:n]
	t.rest = t.rest[n:]
	return s
}

// all translates what is outside of classes.
func (t *translator) all() error {
	for t.rest != "" {
		var err error
		switch t.rest[0] {
		case '\\':
			err = t.escape(false)
		case '[':
			err = t.class()
		case '(':
			err = t.group()
		case '{':
			t.repeat()
		default:
			t.out.WriteString(t.take(1))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repeat translates {,n}, which Go reads as text.
func (t *translator) repeat() {
	inside, _, closed := strings.Cut(t.rest[1:], "}")
	t.out.WriteString(t.take(1))
	if to, ok := strings.CutPrefix(inside, ","); closed && ok && strings.Trim(to, "0123456789") == "" {
		t.out.WriteString("0")
	}
}

// group translates what begins with a parenthesis.
func (t *translator) group() error {
	after, special := strings.CutPrefix(t.rest, "(?")
	if !special {
		t.out.WriteString(t.take(1))
		return nil
	}
	for _, refused := range []struct{ begin, what string }{
		{"=", "a look ahead (?=...)"},
		{"!", "a look ahead (?!...)"},
		{"<=", "a look behind (?<=...)"},
		{"<!", "a look behind (?<!...)"},
		{"P=", "a reference back (?P=...)"},
		{">", "an atomic group (?>...)"},
		{"(", "a condition (?(...)...)"},
	} {
		if strings.HasPrefix(after, refused.begin) {
			return fmt.Errorf("%s: %s", refused.what, noRegexp)
		}
	}
	switch {
	case strings.HasPrefix(after, "#"):
		_, rest, closed := strings.Cut(after, ")")
		if !closed {
			return errors.New("a comment (?#...) is not closed")
		}
		t.rest = rest
		return nil
	case strings.HasPrefix(after, "P<"):
		t.out.WriteString(t.take(len("(?P<")))
		return nil
	}
	return t.flags(after)
}

// flags translates (?i) and (?i:...).
func (t *translator) flags(after string) error {
	n := strings.IndexAny(after, ":)")
	if n < 0 {
		return errors.New("a group (?... is not closed")
	}
	flags := after[:n]
	if bad := strings.Trim(flags, "imsu-"); bad != "" {
		return fmt.Errorf("(?%s: only the flags i, m, s and u are read", flags)
	}
	t.take(len("(?") + n)
	flags = strings.ReplaceAll(flags, "u", "") // is so always
	if flags == "" && strings.HasPrefix(t.rest, ")") {
		t.take(1)
		return nil
	}
	t.out.WriteString("(?" + flags)
	return nil
}

// class translates a class such as [a-z].
func (t *translator) class() error {
	t.out.WriteString(t.take(1))
	if strings.HasPrefix(t.rest, "^") {
		t.out.WriteString(t.take(1))
	}
	for first := true; t.rest != ""; first = false {
		var err error
		switch c := t.rest[0]; {
		case c == ']' && !first:
			t.out.WriteString(t.take(1))
			return nil
		case c == ']' || c == '[':
			t.out.WriteString(`\` + t.take(1))
		case c == '\\':
			err = t.escape(true)
		default:
			t.out.WriteString(t.take(1))
		}
		if err != nil {
			return err
		}
	}
	return errors.New("a class [... is not closed")
}

// escape translates what begins with a backslash.
func (t *translator) escape(inClass bool) error {
	if len(t.rest) < 2 {
		return errors.New(`a \ stands at the end`)
	}
	c := t.rest[1]
	letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	switch {
	case strings.IndexByte("dDwWsS", c) >= 0:
		return t.kind(c, inClass)
	case c >= '1' && c <= '9':
		return fmt.Errorf(`a reference back \%c: %s`, c, noRegexp)
	case c == '0' || c == 'x' || c == 'u' || c == 'U':
		return t.number(c)
	case c == 'b' && inClass:
		t.out.WriteString(`\x08`)
	case c == 'Z' && !inClass:
		t.out.WriteString(`\z`)
	case strings.IndexByte("afnrtv", c) >= 0, !inClass && strings.IndexByte("AbBz", c) >= 0:
		t.out.WriteString(t.rest[:2])
	case letter:
		return fmt.Errorf(`\%c has no meaning in Python`, c)
	case c >= 0x80:
		t.take(1) // the letter itself comes next
		return nil
	default:
		t.out.WriteString(t.rest[:2])
	}
	t.take(2)
	return nil
}

// kind translates \d, \w, \s and their opposites.
func (t *translator) kind(c byte, inClass bool) error {
	t.take(2)
	if inClass && len(t.rest) > 1 && t.rest[0] == '-' && t.rest[1] != ']' {
		return fmt.Errorf(`a range in a class cannot begin with \%c; put the - first or last`, c)
	}
	switch {
	case c == 'd':
		t.out.WriteString(`\p{Nd}`)
	case c == 'D':
		t.out.WriteString(`\P{Nd}`)
	case inClass && c == 'w':
		t.out.WriteString(word)
	case inClass && c == 'W':
		return fmt.Errorf(`\W in a class: %s`, noRegexp)
	case inClass && c == 's':
		t.out.WriteString(space)
	case inClass:
		t.out.WriteString(noSpace)
	default:
		t.out.WriteString(map[byte]string{'w': "[" + word + "]", 'W': "[^" + word + "]", 's': "[" + space + "]", 'S': "[^" + space + "]"}[c])
	}
	return nil
}

// number translates a character that is written by its number.
func (t *translator) number(c byte) error {
	digits, base := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c], 16
	from := 2
	if c == '0' {
		from, base = 1, 8
		for digits = 1; digits < 3 && len(t.rest) > from+digits && t.rest[from+digits] >= '0' && t.rest[from+digits] <= '7'; {
			digits++
		}
	}
	if len(t.rest) < from+digits {
		return fmt.Errorf(`\%c is cut short`, c)
	}
	n, err := strconv.ParseUint(t.rest[from:from+digits], base, 32)
	if err != nil {
		return fmt.Errorf(`\%c: %q is no number`, c, t.rest[from:from+digits])
	}
	t.take(from + digits)
	fmt.Fprintf(&t.out, `\x{%x}`, n)
	return nil
}
