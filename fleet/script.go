package fleet

import (
	"strings"
	"time"
	"unicode"

	v1 "k8s.io/api/core/v1"
)

// token is a word of a script, or an operator: one of ; && || .
type token struct {
	text     string
	operator bool
}

// maxSteps bounds what a script may print, so a plan stays small.
const maxSteps = 1000

// script follows a shell script of plain commands joined by ; && || and newlines,
// and "while true; do ...; done" at its end. It reports whether it understood
// all of it.
func (p *program) script(text string) bool {
	tokens, ok := p.scan(text)
	if !ok {
		return false
	}
	for i, t := range tokens {
		if !t.operator && t.text == "while" {
			return p.list(tokens[:i]) && p.loop(tokens[i:])
		}
	}
	return p.list(tokens)
}

// loop follows while true; do LIST; done, at the end of a script.
func (p *program) loop(tokens []token) bool {
	if p.ended || p.forever {
		return true
	}
	var words []string
	for _, t := range tokens {
		words = append(words, t.text)
	}
	if len(words) < 6 || words[1] != "true" && words[1] != ":" || words[2] != ";" || words[3] != "do" {
		return false
	}
	body := tokens[4:]
	for len(body) > 0 && body[len(body)-1].operator {
		body = body[:len(body)-1]
	}
	if len(p.steps) > 0 || len(body) == 0 || body[len(body)-1].text != "done" {
		return false // what is printed before the loop would be printed again
	}
	start := p.at
	if !p.list(body[:len(body)-1]) {
		return false
	}
	if !p.forever && !p.ended {
		p.forever, p.every = true, max(p.at-start, time.Second)
	}
	return true
}

// list follows commands joined by operators.
func (p *program) list(tokens []token) bool {
	var words []string
	skip := false
	for i := 0; i <= len(tokens); i++ {
		if i < len(tokens) && !tokens[i].operator {
			words = append(words, tokens[i].text)
			continue
		}
		if len(words) > 0 && !skip && !p.ended && !p.forever {
			if !p.run(words) {
				return false
			}
			p.ended = p.ended || p.errexit && p.status != 0 && (i == len(tokens) || tokens[i].text == ";")
		}
		words = nil
		if i < len(tokens) {
			skip = tokens[i].text == "&&" && p.status != 0 || tokens[i].text == "||" && p.status == 0
		}
	}
	return len(p.steps) <= maxSteps
}

// scan cuts a script into tokens. It refuses what plain commands do not need:
// pipes, redirections, substitution, groups, background jobs.
func (p *program) scan(text string) ([]token, bool) {
	var tokens []token
	var word strings.Builder
	open := false // in a word, which may be empty by quotes
	end := func() {
		if open {
			tokens = append(tokens, token{text: word.String()})
			word.Reset()
			open = false
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t', '\r':
			end()
		case '\n', ';':
			end()
			tokens = append(tokens, token{";", true})
		case '&', '|':
			if i+1 >= len(text) || text[i+1] != c {
				return nil, false
			}
			end()
			tokens = append(tokens, token{text[i : i+2], true})
			i++
		case '\'', '"':
			n, ok := p.quoted(&word, text[i:])
			if !ok {
				return nil, false
			}
			i, open = i+n-1, true
		case '\\':
			if i+1 >= len(text) {
				return nil, false
			}
			i++
			if text[i] != '\n' {
				word.WriteByte(text[i])
				open = true
			}
		case '$':
			n, ok := p.variable(&word, text[i:])
			if !ok {
				return nil, false
			}
			i, open = i+n-1, true
		case '#':
			if open {
				word.WriteByte(c)
				continue
			}
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case '`', '(', ')', '<', '>', '{', '}', '*', '?', '[':
			return nil, false
		default:
			word.WriteByte(c)
			open = true
		}
	}
	end()
	return tokens, true
}

// quoted reads a quoted string at the start of text and returns its length.
func (p *program) quoted(word *strings.Builder, text string) (int, bool) {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == quote:
			return i + 1, true
		case quote == '\'':
			word.WriteByte(c)
		case c == '`':
			return 0, false
		case c == '$':
			n, ok := p.variable(word, text[i:])
			if !ok {
				return 0, false
			}
			i += n - 1
		case c == '\\' && i+1 < len(text) && strings.IndexByte(`"\$`, text[i+1]) >= 0:
			i++
			word.WriteByte(text[i])
		default:
			word.WriteByte(c)
		}
	}
	return 0, false
}

// variable reads $NAME or ${NAME} at the start of text and returns its length.
// A variable that is not set is empty, as in a shell.
func (p *program) variable(word *strings.Builder, text string) (int, bool) {
	name := text[1:]
	if strings.HasPrefix(name, "{") {
		inner, _, ok := strings.Cut(name[1:], "}")
		if !ok || inner == "" || strings.IndexFunc(inner, notName) >= 0 {
			return 0, false
		}
		word.WriteString(p.env[inner])
		return len(inner) + 3, true
	}
	if i := strings.IndexFunc(name, notName); i >= 0 {
		name = name[:i]
	}
	if name == "" || unicode.IsDigit(rune(name[0])) {
		return 0, false
	}
	word.WriteString(p.env[name])
	return 1 + len(name), true
}

func notName(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// environment returns the variables that a script may use: those with a literal
// value, and HOSTNAME.
func environment(pod *v1.Pod, c *v1.Container) map[string]string {
	env := map[string]string{"HOSTNAME": pod.Name}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			env[e.Name] = e.Value
		}
	}
	return env
}

// expand replaces $(NAME) in a command as the kubelet does; $$(NAME) stays
// $(NAME), and a name that is not set stays as it is.
func expand(words []string, pod *v1.Pod, c *v1.Container) []string {
	env := environment(pod, c)
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = expandWord(word, env)
	}
	return out
}

func expandWord(word string, env map[string]string) string {
	if !strings.Contains(word, "$") {
		return word
	}
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		if word[i] != '$' || i+1 >= len(word) {
			b.WriteByte(word[i])
			continue
		}
		if word[i+1] == '$' {
			b.WriteByte('$')
			i++
			continue
		}
		name, _, ok := strings.Cut(word[i+1:], ")")
		if value, set := env[strings.TrimPrefix(name, "(")]; ok && set && strings.HasPrefix(name, "(") {
			b.WriteString(value)
			i += len(name) + 1
			continue
		}
		b.WriteByte('$')
	}
	return b.String()
}
