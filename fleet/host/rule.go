package host

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Rule says which containers are backed by a process, and by which.
type Rule struct {
	// Pattern is matched with image references: * stands for any characters, ?
	// for one.
	Pattern string
	// Words is the command and its arguments, with {port}, {prefix} and {home} in
	// them as they were written.
	Words []string
}

// ParseRule reads PATTERN=CMD. CMD is cut into words as a shell does, with
// quotes and backslashes; nothing else of a shell happens to it.
func ParseRule(text string) (Rule, error) {
	pattern, command, found := strings.Cut(text, "=")
	pattern = strings.TrimSpace(pattern)
	if !found || pattern == "" {
		return Rule{}, fmt.Errorf("host process %q: write PATTERN=CMD, such as 'jupyter*=jupyter-notebook --ip=127.0.0.1 --port={port}'", text)
	}
	words, err := split(command)
	if err != nil {
		return Rule{}, fmt.Errorf("host process %q: %w", text, err)
	}
	if len(words) == 0 || words[0] == "" {
		return Rule{}, fmt.Errorf("host process %q: no command after the =", text)
	}
	return Rule{Pattern: pattern, Words: words}, nil
}

// Check reports a program that is not there, before a container asks for it.
func (r Rule) Check() error {
	if strings.Contains(r.Words[0], "{") {
		return nil // it is known when it is filled in
	}
	_, err := program(r.Words[0])
	return r.explain(err)
}

// explain says what to do about a program that is not there.
func (r Rule) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; install it, or give another command to --host-process %s=CMD", err, r.Pattern)
}

// program returns the absolute path of a program.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// ParseRules reads a list of rules and keeps its order.
func ParseRules(texts []string) (Rules, error) {
	var out Rules
	for _, text := range texts {
		r, err := ParseRule(text)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// String is the rule as a person wrote it, but for the quotes.
func (r Rule) String() string { return r.Pattern + "=" + strings.Join(r.Words, " ") }

// Matches reports whether the rule is for an image. The pattern may fit the
// whole reference, or what follows any slash in it (so that jupyter* is for
// quay.io/jupyter/base-notebook and for example.com/team/jupyter-scipy); and it
// may do without the tag and the digest.
func (r Rule) Matches(image string) bool {
	for _, name := range []string{image, untagged(image)} {
		for {
			if fits(r.Pattern, name) {
				return true
			}
			_, rest, more := strings.Cut(name, "/")
			if !more {
				break
			}
			name = rest
		}
	}
	return false
}

// untagged cuts the digest and the tag off an image reference.
func untagged(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	return image
}

// fits matches a whole name with a pattern of *, ? and plain characters.
func fits(pattern, name string) bool {
	// The last * seen, and how much of the name it has taken so far: a mismatch
	// goes back there and gives it one character more.
	star, taken := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, taken = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p, n = p+1, n+1
		case star >= 0:
			taken++
			p, n = star+1, taken
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Rules are tried in their order.
type Rules []Rule

// Find returns the first rule for an image.
func (rs Rules) Find(image string) (Rule, bool) {
	for _, r := range rs {
		if r.Matches(image) {
			return r, true
		}
	}
	return Rule{}, false
}

// prefixes are the base paths that may stand for {prefix}. A user's pod can set
// NB_PREFIX to anything, and a rule may hand it to a shell.
var prefixes = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)

// fill puts values into the words of a command. Each word stays one word.
func fill(words []string, port int, prefix, home string) ([]string, error) {
	if prefix == "" {
		prefix = "/"
	}
	if !prefixes.MatchString(prefix) {
		return nil, fmt.Errorf("NB_PREFIX is %q: a host process takes only a path of letters, digits and . _ ~ - /", prefix)
	}
	to := strings.NewReplacer("{port}", fmt.Sprint(port), "{prefix}", prefix, "{home}", home)
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = to.Replace(w)
	}
	return out, nil
}
