package shell

import (
	"errors"
	"path"
	"strconv"
	"strings"
)

// word reads one word: quotes, escapes and variables.
func (p *parser) word() (word, error) {
	var w word
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			w = append(w, part{text: text.String()})
			text.Reset()
		}
	}
	for p.at < len(p.src) && strings.IndexByte(" \t\r\n;|&<>()", p.src[p.at]) < 0 {
		switch c := p.src[p.at]; c {
		case '\'':
			end := strings.IndexByte(p.src[p.at+1:], '\'')
			if end < 0 {
				return nil, errUnfinished
			}
			flush()
			w = append(w, part{text: p.src[p.at+1 : p.at+1+end], quoted: true})
			p.at += end + 2
		case '"':
			flush()
			parts, err := p.doubleQuoted()
			if err != nil {
				return nil, err
			}
			w = append(w, parts...)
		case '\\':
			if p.at+1 >= len(p.src) {
				return nil, errUnfinished
			}
			flush()
			w = append(w, part{text: p.src[p.at+1 : p.at+2], quoted: true})
			p.at += 2
		case '$':
			flush()
			v, err := p.variable(false)
			if err != nil {
				return nil, err
			}
			w = append(w, v)
		case '`':
			return nil, errSubstitution
		default:
			text.WriteByte(c)
			p.at++
		}
	}
	flush()
	return w, nil
}

var errSubstitution = errors.New("command substitution is not understood by this simulated shell; join commands with ; && || and |")

// doubleQuoted reads from one double quote to the next.
func (p *parser) doubleQuoted() ([]part, error) {
	p.at++
	parts := []part{{quoted: true}} // "" is a word of its own
	for p.at < len(p.src) {
		switch c := p.src[p.at]; c {
		case '"':
			p.at++
			return parts, nil
		case '$':
			v, err := p.variable(true)
			if err != nil {
				return nil, err
			}
			parts = append(parts, v, part{quoted: true})
			continue
		case '`':
			return nil, errSubstitution
		case '\\':
			if p.at+1 < len(p.src) && strings.IndexByte("\"\\$`", p.src[p.at+1]) >= 0 {
				p.at++
			}
		}
		parts[len(parts)-1].text += p.src[p.at : p.at+1]
		p.at++
	}
	return nil, errUnfinished
}

// variable reads $NAME, ${NAME}, ${NAME:-text} or $?; a lone $ is itself.
func (p *parser) variable(quoted bool) (part, error) {
	p.at++
	rest := p.src[p.at:]
	switch {
	case strings.HasPrefix(rest, "("):
		return part{}, errSubstitution
	case strings.HasPrefix(rest, "?"), strings.HasPrefix(rest, "$"):
		p.at++
		return part{name: rest[:1], quoted: quoted}, nil
	case strings.HasPrefix(rest, "{"):
		end := strings.IndexByte(rest, '}')
		if end < 0 {
			return part{}, errUnfinished
		}
		p.at += end + 1
		name, fallback, _ := strings.Cut(rest[1:end], ":-")
		if !isName(name) && name != "?" {
			return part{}, errors.New("${" + rest[1:end] + "} is not understood: only ${NAME} and ${NAME:-text} are")
		}
		return part{name: name, text: fallback, quoted: quoted}, nil
	}
	n := 0
	for n < len(rest) && isNameByte(rest[n], n == 0) {
		n++
	}
	p.at += n
	if n == 0 {
		return part{text: "$", quoted: quoted}, nil
	}
	return part{name: rest[:n], quoted: quoted}, nil
}

var errTooLong = errors.New("argument list too long")

// expand turns a word into arguments: variables are replaced, unquoted ones
// split at blanks, and an unquoted pattern of devices becomes their names.
func (sh *interp) expand(w word) ([]string, error) {
	var out []string
	var b strings.Builder
	open, glob := false, false
	for _, p := range w {
		text := p.text
		if p.name != "" {
			text = sh.lookup(p)
		}
		if p.name == "" || p.quoted {
			open = open || text != "" || p.quoted
			glob = glob || !p.quoted && strings.ContainsAny(text, "*?[")
			b.WriteString(text)
		} else {
			fields := strings.Fields(text)
			if len(fields) > 0 && strings.TrimLeft(text, " \t\n") != text && open {
				out, open = append(out, b.String()), false
				b.Reset()
			}
			for i, f := range fields {
				if i > 0 {
					out = append(out, b.String())
					b.Reset()
				}
				b.WriteString(f)
				open = true
			}
			if len(fields) > 0 && strings.TrimRight(text, " \t\n") != text {
				out, open = append(out, b.String()), false
				b.Reset()
			}
		}
		if b.Len() > maxWordBytes {
			return nil, errTooLong
		}
	}
	if open {
		out = append(out, b.String())
	}
	if glob && len(out) == 1 {
		return sh.glob(out[0]), nil
	}
	return out, nil
}

// expandOne expands without splitting, as an assignment does.
func (sh *interp) expandOne(w word) (string, error) {
	var b strings.Builder
	for _, p := range w {
		if p.name != "" {
			b.WriteString(sh.lookup(p))
		} else {
			b.WriteString(p.text)
		}
		if b.Len() > maxWordBytes {
			return "", errTooLong
		}
	}
	return b.String(), nil
}

func (sh *interp) lookup(p part) string {
	switch p.name {
	case "?":
		return strconv.Itoa(sh.status)
	case "$":
		return "1"
	case "PWD":
		return sh.dir
	}
	if v := sh.vars[p.name]; v != "" {
		return v
	}
	return p.text
}

// glob returns the paths that match the pattern, sorted, or the pattern
// itself if none does.
func (sh *interp) glob(pattern string) []string {
	full := sh.abs(pattern)
	var out []string
	for _, e := range sh.m.entries(path.Dir(full)) {
		if ok, err := path.Match(path.Base(full), e.name); ok && err == nil {
			dir := pattern[:strings.LastIndexByte(pattern, '/')+1]
			out = append(out, dir+e.name)
		}
	}
	if len(out) == 0 {
		return []string{pattern}
	}
	return out
}
