package doctor

import (
	"maps"
	"strings"
)

// settings are the values of a TOML file by table and key. The parts of a
// table's name are joined with "/": plugins/io.containerd.cri.v1.runtime/cni.
type settings map[string]map[string]string

// parseTOML reads as much of TOML as the configuration of container runtimes
// uses: tables, quoted names, strings, booleans, numbers and arrays. Values stay
// as they are written, with the quotes of a plain string taken off. Inline
// tables, dotted keys and strings over several lines are passed over: what is
// judged here is never written so.
func parseTOML(text string) settings {
	out := settings{}
	table := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(uncomment(lines[i]))
		switch {
		case line == "":
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			table = strings.Join(splitQuoted(strings.Trim(line, "[] \t"), '.'), "/")
		default:
			parts := splitQuoted(line, '=')
			if len(parts) < 2 {
				continue
			}
			_, value, _ := strings.Cut(line, "=")
			value = strings.TrimSpace(value)
			for strings.HasPrefix(value, "[") && strings.Count(value, "[") > strings.Count(value, "]") && i+1 < len(lines) {
				i++
				value += " " + strings.TrimSpace(uncomment(lines[i]))
			}
			if out[table] == nil {
				out[table] = map[string]string{}
			}
			out[table][parts[0]] = unquote(value)
		}
	}
	return out
}

// uncomment removes a comment, but not a # within quotes.
func uncomment(line string) string {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			return line[:i]
		}
	}
	return line
}

// splitQuoted splits at sep outside of quotes, and takes blanks and quotes off.
func splitQuoted(s string, sep byte) []string {
	var out []string
	quote := byte(0)
	begin := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == sep:
			out = append(out, unquote(s[begin:i]))
			begin = i + 1
		}
	}
	return append(out, unquote(s[begin:]))
}

func unquote(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// list reads an array of strings; nil is no array.
func list(value string) []string {
	if !strings.HasPrefix(value, "[") || !strings.HasSuffix(value, "]") {
		return nil
	}
	out := []string{}
	for _, part := range splitQuoted(value[1:len(value)-1], ',') {
		if part != "" {
			out = append(out, part)
		}
	}
	return out
}

// merge lets the values of other win, as a file read later does.
func (s settings) merge(other settings) {
	for table, values := range other {
		if s[table] == nil {
			s[table] = map[string]string{}
		}
		maps.Copy(s[table], values)
	}
}
