package profile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Format puts values into the places {name} of a text, as Python's str.format
// does with plain names: {{ and }} stand for braces. Nothing is computed: places
// with an index, an attribute or a format are refused, and so is one brace alone.
// value gives the text for a name; where it has none, the error says so.
func Format(text string, value func(name string) (string, bool)) (string, error) {
	return format(text, func(name string) (string, error) {
		if v, ok := value(name); ok {
			return v, nil
		}
		return "", fmt.Errorf("%q: nothing is known as {%s}; write {{ and }} for braces", text, name)
	})
}

// format is Format with a value that may refuse.
func format(text string, value func(name string) (string, error)) (string, error) {
	if !strings.ContainsAny(text, "{}") {
		return text, nil
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i])
		brace := rest[i]
		rest = rest[i+1:]
		if strings.HasPrefix(rest, string(brace)) {
			b.WriteByte(brace)
			rest = rest[1:]
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if brace == '}' || !closed {
			return "", fmt.Errorf("%q: a brace stands alone; write {{ and }} for braces", text)
		}
		if !plainName(name) {
			return "", fmt.Errorf("%q: {%s} is not a plain name; write {{ and }} for braces", text, name)
		}
		v, err := value(name)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		rest = after
	}
	return b.String(), nil
}

// plainName reports whether a place of a text names a value and does nothing else.
func plainName(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// formatAll puts value into the places {value} of all texts in v, keys of
// mappings too. Other places stay as they are, for later. The error begins with
// the path in v.
func formatAll(v any, value string) (any, error) {
	put := func(name string) (string, error) {
		if name == "value" {
			return value, nil
		}
		return "{" + name + "}", nil
	}
	switch v := v.(type) {
	case string:
		out, err := format(v, put)
		if err != nil {
			return nil, fmt.Errorf(": %w", err)
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var err error
			if out[i], err = formatAll(v[i], value); err != nil {
				return nil, fmt.Errorf("[%d]%w", i, err)
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			name, err := format(key, put)
			if err != nil {
				return nil, fmt.Errorf(".%s: %w", key, err)
			}
			if out[name], err = formatAll(v[key], value); err != nil {
				return nil, fmt.Errorf(".%s%w", key, err)
			}
		}
		return out, nil
	}
	return v, nil
}
