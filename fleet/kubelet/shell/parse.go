package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// errUnfinished says that the text ends inside a quote or after an operator: a
// reader of lines should add the next one.
var errUnfinished = errors.New("unexpected end of the command line: a quote or an operator is left open")

// script is a command line: pipelines with what joins each to the one before.
type script []item

type item struct {
	join  string // "", ";", "&&" or "||": how it follows the item before
	stage []command
	not   bool // "!" before it
}

// command is one stage of a pipeline.
type command struct {
	assigns   []assign
	words     []word
	redirects []redirect
}

type assign struct {
	name  string
	value word
}

// redirect sends one stream somewhere: "null", "1" or "2".
type redirect struct {
	fd int
	to string
}

// word is one argument before expansion.
type word []part

// part is a run of text, or a variable when name is set.
type part struct {
	text   string // text itself, or what ${name:-text} falls back to
	name   string
	quoted bool
}

// keywords are words of the shell language that are not supported; as the
// first word of a command they are refused rather than looked up.
var keywords = []string{"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function", "select", "{", "}", "[["}

// parser reads one command line.
type parser struct {
	src string
	at  int
}

// parse reads a command line. Its error is errUnfinished or says what is not
// understood.
func parse(src string) (script, error) {
	p := &parser{src: strings.ReplaceAll(src, "\\\n", "")}
	var out script
	join := ""
	for {
		p.blanks(true)
		if p.at >= len(p.src) {
			if join == "&&" || join == "||" {
				return nil, errUnfinished
			}
			return out, nil
		}
		it, err := p.pipeline()
		if err != nil {
			return nil, err
		}
		it.join = join
		out = append(out, it)
		p.blanks(false)
		switch {
		case p.at >= len(p.src):
			return out, nil
		case p.take("&&"):
			join = "&&"
		case p.take("||"):
			join = "||"
		case p.take(";"), p.take("\n"):
			join = ";"
		default:
			return nil, p.unexpected()
		}
	}
}

// pipeline reads commands joined by "|".
func (p *parser) pipeline() (item, error) {
	var it item
	if p.at+1 < len(p.src) && p.src[p.at] == '!' && isBlank(p.src[p.at+1]) {
		p.at++
		it.not = true
	}
	for {
		c, err := p.command()
		if err != nil {
			return item{}, err
		}
		it.stage = append(it.stage, c)
		p.blanks(false)
		if strings.HasPrefix(p.src[p.at:], "||") || !p.take("|") {
			return it, nil
		}
		p.blanks(true)
		if p.at >= len(p.src) {
			return item{}, errUnfinished
		}
	}
}

// command reads assignments, words and redirections up to an operator.
func (p *parser) command() (command, error) {
	var c command
	for {
		p.blanks(false)
		if p.at >= len(p.src) || strings.IndexByte(";|\n", p.src[p.at]) >= 0 || strings.HasPrefix(p.src[p.at:], "&&") {
			break
		}
		start := p.at
		if ok, err := p.redirect(&c); ok || err != nil {
			if err != nil {
				return command{}, err
			}
			continue
		}
		w, err := p.word()
		if err != nil {
			return command{}, err
		}
		if p.at == start {
			return command{}, p.unexpected()
		}
		if len(c.words) == 0 {
			if a, ok := asAssign(w); ok {
				c.assigns = append(c.assigns, a)
				continue
			}
			if len(w) == 1 && w[0].name == "" && !w[0].quoted && slices.Contains(keywords, w[0].text) {
				return command{}, fmt.Errorf("%q is not understood: this simulated shell joins commands with ; && || and | only", w[0].text)
			}
		}
		c.words = append(c.words, w)
	}
	if len(c.words)+len(c.assigns)+len(c.redirects) == 0 {
		return command{}, p.unexpected()
	}
	return c, nil
}

// redirect reads one of the redirections that need no file.
func (p *parser) redirect(c *command) (bool, error) {
	rest := p.src[p.at:]
	digits := 0
	if rest[0] == '1' || rest[0] == '2' || rest[0] == '&' {
		digits = 1
	}
	if len(rest) == digits || rest[digits] != '>' && rest[digits] != '<' {
		return false, nil
	}
	fds := map[string][]int{"": {1}, "1": {1}, "2": {2}, "&": {1, 2}}[rest[:digits]]
	in := rest[digits] == '<'
	p.at += digits + 1
	if p.take(">") || p.take("<") && in {
		if in {
			return false, errors.New("here-documents are not understood by this simulated shell")
		}
	}
	if !in && (p.take("&1") || p.take("&2")) {
		for _, fd := range fds {
			c.redirects = append(c.redirects, redirect{fd: fd, to: p.src[p.at-1 : p.at]})
		}
		return true, nil
	}
	p.blanks(false)
	w, err := p.word()
	if err != nil {
		return false, err
	}
	if len(w) != 1 || w[0].text != "/dev/null" || w[0].name != "" {
		return false, errors.New("redirection: a simulated container has no files; only /dev/null, 2>&1 and 1>&2 can be named")
	}
	if in {
		fds = []int{0}
	}
	for _, fd := range fds {
		c.redirects = append(c.redirects, redirect{fd: fd, to: "null"})
	}
	return true, nil
}

// blanks skips blanks and comments, and newlines too if lines is set.
func (p *parser) blanks(lines bool) {
	for p.at < len(p.src) {
		switch c := p.src[p.at]; {
		case isBlank(c), lines && c == '\n':
			p.at++
		case c == '#' && (p.at == 0 || isBlank(p.src[p.at-1]) || strings.IndexByte("\n;", p.src[p.at-1]) >= 0):
			end := strings.IndexByte(p.src[p.at:], '\n')
			if end < 0 {
				p.at = len(p.src)
				return
			}
			p.at += end
		default:
			return
		}
	}
}

func (p *parser) take(s string) bool {
	if strings.HasPrefix(p.src[p.at:], s) {
		p.at += len(s)
		return true
	}
	return false
}

func (p *parser) unexpected() error {
	if p.at >= len(p.src) {
		return errUnfinished
	}
	r := []rune(p.src[p.at:])[0]
	switch r {
	case '&':
		return errors.New("& is not understood: nothing runs in the background of a simulated container")
	case '(', ')':
		return errors.New("( ) is not understood: this simulated shell has no subshells")
	}
	return fmt.Errorf("syntax error near %q", r)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// asAssign says whether a word has the form NAME=value.
func asAssign(w word) (assign, bool) {
	if len(w) == 0 || w[0].name != "" || w[0].quoted {
		return assign{}, false
	}
	name, value, ok := strings.Cut(w[0].text, "=")
	if !ok || !isName(name) {
		return assign{}, false
	}
	return assign{name: name, value: append(word{{text: value}}, w[1:]...)}, true
}

// isName says whether s can name a variable.
func isName(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i], i == 0) {
			return false
		}
	}
	return s != ""
}

// isNameByte says whether c can stand in a variable's name.
func isNameByte(c byte, first bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || !first && c >= '0' && c <= '9'
}
