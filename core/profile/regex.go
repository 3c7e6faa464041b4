package profile

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// longestRegex bounds a regex, in bytes.
const longestRegex = 4096

const noRegexp = "Berth's regexes run in linear time and have none; write it without"

// classes are Python's classes of characters, which are Unicode's; Go's own are
// ASCII.
var classes = map[byte]string{
	'd': `\p{Nd}`,
	'w': `_\p{L}\p{N}`,
	's': `\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}`,
}

// Regex compiles a regex of Python's for texts of one line. It matches where
// Python's re.match does: at the start of the text, and not to its end unless the
// regex says so. It reads what hubs use to check an image or a tag: text, ., classes,
// groups, alternatives, repetitions, anchors, \d \w \s, and (?i). The rest is
// refused with the reason, and so is what Python refuses. \b looks at ASCII letters
// only.
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

// copy moves the next n bytes to the output.
func (t *translator) copy(n int) {
	t.out.WriteString(t.rest[:n])
	t.rest = t.rest[n:]
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
		default:
			if strings.HasPrefix(t.rest, "{,") {
				return errors.New("{,n} is not supported; write {0,n}")
			}
			t.copy(1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// group translates what begins with a parenthesis.
func (t *translator) group() error {
	after, special := strings.CutPrefix(t.rest, "(?")
	switch {
	case !special:
		t.copy(1)
		return nil
	case strings.HasPrefix(after, ":"), strings.HasPrefix(after, "i)"), strings.HasPrefix(after, "i:"):
		t.copy(3)
		return nil
	}
	for _, refused := range []struct{ begin, what string }{
		{"=", "a look ahead (?=...)"},
		{"!", "a look ahead (?!...)"},
		{"<=", "a look behind (?<=...)"},
		{"<!", "a look behind (?<!...)"},
	} {
		if strings.HasPrefix(after, refused.begin) {
			return fmt.Errorf("%s: %s", refused.what, noRegexp)
		}
	}
	return errors.New("of groups that begin with (? only (?:...) and (?i) are supported")
}

// class translates a class such as [a-z].
func (t *translator) class() error {
	t.copy(1)
	if strings.HasPrefix(t.rest, "^") {
		t.copy(1)
	}
	for first := true; t.rest != ""; first = false {
		switch c := t.rest[0]; {
		case c == ']' && !first:
			t.copy(1)
			return nil
		case c == ']' || c == '[': // plain characters here, but not to Go
			t.out.WriteByte('\\')
			t.copy(1)
		case c == '\\':
			if err := t.escape(true); err != nil {
				return err
			}
		default:
			t.copy(1)
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
	set, isSet := classes[c|0x20]
	negated := c < 'a'
	letter := c|0x20 >= 'a' && c|0x20 <= 'z'
	switch {
	case isSet && letter && inClass && negated:
		return fmt.Errorf(`\%c in a class is not supported; write what it matches`, c)
	case isSet && letter && inClass:
		t.rest = t.rest[2:]
		if len(t.rest) > 1 && t.rest[0] == '-' && t.rest[1] != ']' {
			return fmt.Errorf(`a range in a class cannot begin with \%c; put the - first or last`, c)
		}
		t.out.WriteString(set)
		return nil
	case isSet && letter:
		t.rest = t.rest[2:]
		t.out.WriteString(map[bool]string{false: "[", true: "[^"}[negated] + set + "]")
		return nil
	case c >= '1' && c <= '9':
		return fmt.Errorf(`a reference back \%c: %s`, c, noRegexp)
	case c >= 0x80: // the letter itself comes next
		t.rest = t.rest[1:]
		return nil
	case c == '0' || letter && (inClass || c|0x20 != 'b'):
		return fmt.Errorf(`\%c is not supported; of letters and digits after a \ only d, D, w, W, s, S, b and B are`, c)
	}
	t.copy(2)
	return nil
}
