package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/expand"
	shellpattern "mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// expansion is one expansion of words. The library reads variables, substitutes
// commands and lists folders through it alone, and it counts what the library
// has been given: a result is never longer than that and the text itself.
type expansion struct {
	p    *process
	left int // bytes that may still be given
}

// newExpansion returns the library's configuration for one expansion in p.
func newExpansion(p *process) *expand.Config {
	x := &expansion{p: p, left: maxArgsBytes}
	if p.sh.patterns {
		x.left = maxPatternBytes
	}
	return &expand.Config{Env: x, CmdSubst: x.substitute, ReadDir2: x.readDir}
}

// recovered turns a panic in an expansion into an error: one of ours, which says
// that a bound is reached where the library takes no error, or one of the
// library's on an expression that it does not expect.
func recovered(err *error) {
	switch r := recover().(type) {
	case nil:
	case error:
		*err = errors.New("bad substitution")
		if errors.Is(r, errTooLong) {
			*err = errTooLong
		}
	default:
		*err = errors.New("bad substitution")
	}
}

// fields expands words into arguments.
func (p *process) fields(words ...*syntax.Word) (out []string, err error) {
	defer recovered(&err)
	cfg := newExpansion(p)
	total := 0
	for f, err := range expand.FieldsSeq(cfg, words...) {
		if err != nil {
			return nil, err
		}
		if total += len(f) + 1; len(f) > maxWordBytes || total > maxArgsBytes {
			return nil, errTooLong
		}
		out = append(out, f)
	}
	return out, nil
}

// value expands a word without splitting it, as an assignment does.
func (p *process) value(w *syntax.Word) (out string, err error) {
	defer recovered(&err)
	cfg := newExpansion(p)
	return short(expand.Literal(cfg, w))
}

// document expands the text of a here-document.
func (p *process) document(w *syntax.Word) (out string, err error) {
	defer recovered(&err)
	cfg := newExpansion(p)
	return short(expand.Document(cfg, w))
}

func short(s string, err error) (string, error) {
	if err == nil && len(s) > maxWordBytes {
		err = errTooLong
	}
	return s, err
}

// arithmetic returns the value of an expression.
func (p *process) arithmetic(e syntax.ArithmExpr) (n int, err error) {
	defer recovered(&err)
	cfg := newExpansion(p)
	return expand.Arithm(cfg, e)
}

// matches reports whether s matches the pattern of a case.
func (p *process) matches(w *syntax.Word, s string) (ok bool, err error) {
	defer recovered(&err)
	cfg := newExpansion(p)
	pat, err := expand.Pattern(cfg, w)
	if err == nil && len(pat)+len(s) > 2*maxPatternBytes {
		err = errTooLong
	}
	if err != nil {
		return false, err
	}
	expr, err := shellpattern.Regexp(pat, shellpattern.EntireString)
	if err != nil {
		return pat == s, nil
	}
	re, err := regexp.Compile(expr)
	return err == nil && re.MatchString(s), err
}

// take counts n bytes that the library is given.
func (x *expansion) take(n int) {
	x.p.sh.lim.expanded(n)
	if x.left -= n; x.left < 0 {
		panic(errTooLong) // recovered in this file; Get has no error to return
	}
}

// Get returns a variable or a special parameter.
func (x *expansion) Get(name string) expand.Variable {
	sh := x.p.sh
	text := func(s string) expand.Variable {
		x.take(len(s))
		return expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: s}
	}
	switch name {
	case "?":
		return text(strconv.Itoa(sh.status))
	case "$":
		return text("1")
	case "#":
		return text(strconv.Itoa(len(sh.params)))
	case "@", "*":
		for _, s := range sh.params {
			x.take(len(s) + 1)
		}
		return expand.Variable{Set: true, Kind: expand.Indexed, List: sh.params}
	case "0":
		return text("sh")
	case "PWD":
		return text(sh.dir)
	case "UID", "EUID":
		return text("0")
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n < 1 || n > len(sh.params) {
			return expand.Variable{}
		}
		return text(sh.params[n-1])
	}
	if v, ok := sh.vars[name]; ok {
		return text(v)
	}
	if name == "HOME" {
		return text("/root")
	}
	// ~NAME is left as it is: the library would ask the host for NAME.
	if user, ok := strings.CutPrefix(name, "HOME "); ok {
		return text("~" + user)
	}
	return expand.Variable{}
}

// Set sets a variable, as ${NAME:=text} and arithmetic do.
func (x *expansion) Set(name string, v expand.Variable) error {
	return x.p.sh.set(name, v.Str)
}

// Each calls f forevery variable.
func (x *expansion) Each(f func(string, expand.Variable) bool) {
	for name := range x.p.sh.vars {
		if !f(name, x.Get(name)) {
			return
		}
	}
}

// substitute runs the commands of $(...) in a copy of the shell and writes what
// they print to w.
func (x *expansion) substitute(w io.Writer, c *syntax.CmdSubst) error {
	ctx, cancel := context.WithCancel(x.p.ctx)
	defer cancel()
	most := min(maxWordBytes, x.left)
	out := &bounded{w: w, left: most, full: cancel}
	child := x.p.sh.fork()
	child.status = 0
	q := *x.p
	q.ctx, q.sh, q.stdout = ctx, child, &locked{new(sync.Mutex), out}
	child.list(&q, c.Stmts)
	if x.p.sh.substituted = child.status; out.over {
		return errTooLong
	}
	x.left -= most - out.left
	return nil
}

// readDir lists a folder of the container for a pattern of names. Where much
// text is expanded, there are no patterns.
func (x *expansion) readDir(dir string) ([]fs.DirEntry, error) {
	x.take(64)
	dir = path.Clean(dir)
	e, ok := x.p.sh.m.stat(dir)
	switch {
	case !ok || x.left < maxArgsBytes-maxPatternBytes && !x.p.sh.patterns:
		return nil, fs.ErrNotExist
	case !e.dir:
		return nil, syscall.ENOTDIR
	}
	var out []fs.DirEntry
	for _, e := range x.p.sh.m.entries(dir) {
		out = append(out, fs.FileInfoToDirEntry(e))
	}
	return out, nil
}

// entry is an fs.FileInfo for the library's patterns.

func (e entry) Name() string       { return e.name }
func (e entry) Size() int64        { return 0 }
func (e entry) ModTime() time.Time { return time.Time{} }
func (e entry) IsDir() bool        { return e.dir }
func (e entry) Sys() any           { return nil }

// Mode returns the type of the entry without permissions.
func (e entry) Mode() fs.FileMode {
	switch {
	case e.dir:
		return fs.ModeDir
	case e.major > 0:
		return fs.ModeDevice | fs.ModeCharDevice
	}
	return 0
}

// set sets a variable within the bounds.
func (sh *interp) set(name, value string) error {
	old, had := sh.vars[name]
	grown := len(value) - len(old)
	if !had {
		grown += len(name)
	}
	if len(value) > maxWordBytes || grown > 0 && sh.grown+grown > maxVarsBytes || !had && len(sh.vars) >= maxVars {
		return fmt.Errorf("%s: %w", name, errTooLong)
	}
	sh.grown += grown
	sh.vars[name] = value
	return nil
}

// exported marks a variable as one that env prints.
func (sh *interp) exported(name string) {
	if !slices.Contains(sh.order, name) {
		sh.order = append(sh.order, name)
	}
}

// unset removes a variable.
func (sh *interp) unset(name string) {
	if v, ok := sh.vars[name]; ok {
		sh.grown -= len(name) + len(v)
		delete(sh.vars, name)
	}
	sh.order = slices.DeleteFunc(sh.order, func(n string) bool { return n == name })
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
