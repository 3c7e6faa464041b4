package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// eval parses and runs text with the streams of p and returns the exit code of
// its last pipeline.
func (sh *interp) eval(p *process, text string) int {
	s, err := parse(text)
	if err != nil {
		fmt.Fprintf(p.stderr, "sh: %v\n", err)
		sh.status = exitUsage
		return exitUsage
	}
	q := *p
	q.sh = sh
	sh.patterns = s.patterns
	sh.list(&q, s.stmts)
	return sh.status
}

// stopped reports whether the statements that follow are not to run.
func (sh *interp) stopped(p *process) bool {
	return sh.exited || sh.leave > 0 || sh.next > 0 || p.ctx.Err() != nil
}

func (sh *interp) list(p *process, stmts []*syntax.Stmt) {
	for _, st := range stmts {
		if sh.stopped(p) {
			return
		}
		sh.stmt(p, st)
	}
}

// step counts one step of p; when there are to be no more, the shell ends.
func (sh *interp) step(p *process) bool {
	err := sh.lim.step(p.ctx)
	switch {
	case err == nil:
		return true
	case p.ctx.Err() != nil:
		sh.status = exitInterrupted
	default:
		sh.complain(p, err)
		sh.exited = true
	}
	return false
}

// complain prints err as the shell and returns the exit code for it.
func (sh *interp) complain(p *process, err error) int {
	fmt.Fprintf(p.stderr, "sh: %v\n", err)
	sh.status = exitTooLong
	if _, unset := errors.AsType[expand.UnsetParameterError](err); unset { // ${NAME:?text}
		sh.status, sh.exited = 1, true
	}
	return sh.status
}

func (sh *interp) stmt(p *process, st *syntax.Stmt) {
	if !sh.step(p) {
		return
	}
	q, err := p.redirected(st.Redirs)
	if err != nil {
		sh.complain(p, err)
		sh.status = 1
		return
	}
	code := sh.command(q, st.Cmd)
	if st.Negated {
		if code == 0 {
			code = 1
		} else {
			code = 0
		}
	}
	sh.status = code
}

// command runs one command, simple or compound, and returns its exit code.
func (sh *interp) command(p *process, c syntax.Command) int {
	switch c := c.(type) {
	case *syntax.CallExpr:
		return sh.call(p, c)
	case *syntax.DeclClause:
		return sh.declare(p, c)
	case *syntax.BinaryCmd:
		if c.Op == syntax.Pipe {
			return sh.pipe(p, stages(c))
		}
		sh.stmt(p, c.X)
		if (sh.status == 0) == (c.Op == syntax.AndStmt) && !sh.stopped(p) {
			sh.stmt(p, c.Y)
		}
		return sh.status
	case *syntax.Block:
		sh.list(p, c.Stmts)
		return sh.status
	case *syntax.Subshell:
		child := sh.fork()
		q := *p
		q.sh = child
		child.list(&q, c.Stmts)
		return child.status
	case *syntax.IfClause:
		return sh.choose(p, c)
	case *syntax.WhileClause:
		return sh.while(p, c)
	case *syntax.ForClause:
		return sh.each(p, c)
	case *syntax.CaseClause:
		return sh.match(p, c)
	case *syntax.ArithmCmd:
		n, err := p.arithmetic(c.X)
		if err != nil {
			return sh.complain(p, err)
		}
		if n == 0 {
			return 1
		}
	}
	return 0
}

// stages returns the commands of a pipeline in order.
func stages(c *syntax.BinaryCmd) []*syntax.Stmt {
	var out []*syntax.Stmt
	for _, st := range []*syntax.Stmt{c.X, c.Y} {
		if in, ok := st.Cmd.(*syntax.BinaryCmd); ok && in.Op == syntax.Pipe && len(st.Redirs) == 0 && !st.Negated {
			out = append(out, stages(in)...)
		} else {
			out = append(out, st)
		}
	}
	return out
}

// pipe runs the stages at once, each in a copy of the shell, and returns the
// code of the last. When a stage ends, those before it are told to end too,
// as SIGPIPE would.
func (sh *interp) pipe(p *process, stages []*syntax.Stmt) int {
	var wg sync.WaitGroup
	defer wg.Wait()
	stdin := p.stdin
	stop := context.CancelFunc(func() {})
	for _, st := range stages[:len(stages)-1] {
		if !sh.lim.start() {
			stop()
			return sh.complain(p, fmt.Errorf("cannot start another process: at most %d run at once in a simulated container", maxProcesses))
		}
		r, w := io.Pipe()
		ctx, cancel := context.WithCancel(p.ctx)
		in, before := stdin, stop
		child := sh.fork()
		wg.Go(func() {
			defer sh.lim.end()
			defer before()
			defer w.Close()
			child.stmt(&process{ctx: ctx, sh: child, stdin: in, stdout: &locked{new(sync.Mutex), w}, stderr: p.stderr}, st)
			closeReader(in)
		})
		stop = func() {
			cancel()
			r.Close()
		}
		stdin = r
	}
	child := sh.fork()
	child.stmt(&process{ctx: p.ctx, sh: child, stdin: stdin, stdout: p.stdout, stderr: p.stderr}, stages[len(stages)-1])
	stop()
	return child.status
}

// closeReader ends the writer of a pipe whose reader is done.
func closeReader(r io.Reader) {
	if pr, ok := r.(*io.PipeReader); ok {
		pr.Close()
	}
}

// call expands and runs a simple command.
func (sh *interp) call(p *process, c *syntax.CallExpr) int {
	sh.substituted = 0
	argv, err := p.fields(c.Args...)
	if err != nil {
		return sh.complain(p, err)
	}
	if len(argv) > 0 && len(c.Assigns) > 0 { // they hold for this command only
		defer sh.restore(c.Assigns)()
	}
	for _, a := range c.Assigns {
		v, err := p.value(a.Value)
		if a.Append {
			v = sh.vars[a.Name.Value] + v
		}
		if err == nil {
			err = sh.set(a.Name.Value, v)
		}
		if err != nil {
			return sh.complain(p, err)
		}
		if len(argv) > 0 {
			sh.exported(a.Name.Value)
		}
	}
	if len(argv) == 0 {
		return sh.substituted
	}
	return sh.run(p, argv)
}

// restore returns a func that gives the variables of assigns their present
// values.
func (sh *interp) restore(assigns []*syntax.Assign) func() {
	before, order := map[string]string{}, slices.Clone(sh.order)
	for _, a := range assigns {
		if v, ok := sh.vars[a.Name.Value]; ok {
			before[a.Name.Value] = v
		}
	}
	return func() {
		for _, a := range assigns {
			sh.unset(a.Name.Value)
			if v, ok := before[a.Name.Value]; ok {
				sh.vars[a.Name.Value] = v
				sh.grown += len(a.Name.Value) + len(v)
			}
		}
		sh.order = order
	}
}

// declare runs export, which the parser reads apart from other commands.
func (sh *interp) declare(p *process, c *syntax.DeclClause) int {
	argv := []string{"export"}
	for _, a := range c.Args {
		switch {
		case a.Name == nil:
			words, err := p.fields(a.Value)
			if err != nil {
				return sh.complain(p, err)
			}
			argv = append(argv, words...)
		case a.Naked:
			argv = append(argv, a.Name.Value)
		default:
			v, err := p.value(a.Value)
			if err != nil {
				return sh.complain(p, err)
			}
			argv = append(argv, a.Name.Value+"="+v)
		}
	}
	return sh.run(p, argv)
}

// redirected returns p with its streams sent where the redirections say.
func (p *process) redirected(to []*syntax.Redirect) (*process, error) {
	if len(to) == 0 {
		return p, nil
	}
	q := *p
	for _, r := range to {
		switch r.Op {
		case syntax.RdrIn:
			name, err := p.value(r.Word)
			if err != nil {
				return nil, err
			}
			text, ok := p.sh.m.file(p.sh.abs(name))
			if !ok {
				return nil, errors.New(name + ": No such file or directory")
			}
			q.stdin = strings.NewReader(text)
			continue
		case syntax.Hdoc, syntax.WordHdoc:
			read, w, end := p.document, r.Hdoc, ""
			if r.Op == syntax.WordHdoc {
				read, w, end = p.value, r.Word, "\n"
			}
			text, err := read(w)
			if err != nil {
				return nil, err
			}
			q.stdin = strings.NewReader(text + end)
			continue
		default: // an output
		}
		out := io.Discard
		switch r.Word.Lit() {
		case "1":
			out = q.stdout
		case "2":
			out = q.stderr
		}
		both := r.Op == syntax.RdrAll || r.Op == syntax.AppAll
		second := r.N != nil && r.N.Value == "2"
		if both || second {
			q.stderr = out
		}
		if both || !second {
			q.stdout = out
		}
	}
	return &q, nil
}
