package host

import (
	"errors"
	"strings"
)

// split cuts a command into words by the quoting rules of POSIX shells (single
// quotes, double quotes, backslashes). Nothing is expanded, and no character
// joins or redirects commands: `a | b` is three words.
//
// Source: POSIX.1-2024, Shell Command Language, 2.2 Quoting.
func split(text string) ([]string, error) {
	var s splitter
	for rest := text; rest != ""; {
		var err error
		if rest, err = s.take(rest); err != nil {
			return nil, err
		}
	}
	s.end()
	return s.words, nil
}

// splitter gathers words; begun says that one is open, which may be empty yet.
type splitter struct {
	words []string
	word  strings.Builder
	begun bool
}

func (s *splitter) end() {
	if s.begun {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.begun = false
}

func (s *splitter) add(text string) {
	s.word.WriteString(text)
	s.begun = true
}

// take reads what comes next and returns what is left.
func (s *splitter) take(text string) (rest string, err error) {
	switch text[0] {
	case ' ', '\t', '\n':
		s.end()
		return text[1:], nil
	case '\'':
		quoted, rest, closed := strings.Cut(text[1:], "'")
		if !closed {
			return "", errors.New("a single quote is not closed")
		}
		s.add(quoted)
		return rest, nil
	case '"':
		return s.double(text[1:])
	case '\\':
		if len(text) == 1 {
			return "", errors.New("it ends with a backslash")
		}
		if text[1] != '\n' {
			s.add(text[1:2])
		}
		return text[2:], nil
	}
	s.add(text[:1])
	return text[1:], nil
}

// double reads up to the closing double quote. A backslash keeps its place
// unless it stands before one of $ ` " \ or a newline.
func (s *splitter) double(text string) (rest string, err error) {
	s.begun = true
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return text[i+1:], nil
		case text[i] == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\\n", text[i+1]) >= 0:
			i++
			if text[i] != '\n' {
				s.add(text[i : i+1])
			}
		default:
			s.add(text[i : i+1])
		}
	}
	return "", errors.New("a double quote is not closed")
}
