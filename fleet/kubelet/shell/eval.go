package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
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
	return sh.script(p, s)
}

func (sh *interp) script(p *process, s script) int {
	for _, it := range s {
		if it.join == "&&" && sh.status != 0 || it.join == "||" && sh.status == 0 {
			continue
		}
		sh.status = sh.pipeline(p, it)
		if sh.exited || p.ctx.Err() != nil {
			break
		}
	}
	return sh.status
}

func (sh *interp) pipeline(p *process, it item) int {
	code := 0
	if len(it.stage) == 1 {
		code = sh.command(p, it.stage[0])
	} else {
		code = sh.pipe(p, it.stage)
	}
	if !it.not {
		return code
	}
	if code == 0 {
		return 1
	}
	return 0
}

// pipe runs the stages at once, each in a copy of the shell, and returns the
// code of the last. When a stage ends, those before it are told to end too,
// as SIGPIPE would.
func (sh *interp) pipe(p *process, stages []command) int {
	var wg sync.WaitGroup
	defer wg.Wait()
	stdin := p.stdin
	stop := context.CancelFunc(func() {})
	for _, c := range stages[:len(stages)-1] {
		r, w := io.Pipe()
		ctx, cancel := context.WithCancel(p.ctx)
		in, before := stdin, stop
		child := sh.fork()
		wg.Go(func() {
			defer before()
			defer w.Close()
			child.command(&process{ctx: ctx, sh: child, stdin: in, stdout: w, stderr: p.stderr}, c)
			closeReader(in)
		})
		stop = func() {
			cancel()
			r.Close()
		}
		stdin = r
	}
	child := sh.fork()
	code := child.command(&process{ctx: p.ctx, sh: child, stdin: stdin, stdout: p.stdout, stderr: p.stderr}, stages[len(stages)-1])
	stop()
	return code
}

// closeReader ends the writer of a pipe whose reader is done.
func closeReader(r io.Reader) {
	if pr, ok := r.(*io.PipeReader); ok {
		pr.Close()
	}
}

// command expands and runs one command.
func (sh *interp) command(p *process, c command) int {
	var argv []string
	total := 0
	for _, w := range c.words {
		fields, err := sh.expand(w)
		for _, f := range fields {
			total += len(f)
		}
		if total > 8*maxWordBytes && err == nil {
			err = errTooLong
		}
		if err != nil {
			fmt.Fprintf(p.stderr, "sh: %v\n", err)
			return exitTooLong
		}
		argv = append(argv, fields...)
	}
	target := sh
	if len(argv) > 0 && len(c.assigns) > 0 {
		target = sh.fork() // they hold for this command only
	}
	for _, a := range c.assigns {
		v, err := sh.expandOne(a.value)
		if err != nil {
			fmt.Fprintf(p.stderr, "sh: %s: %v\n", a.name, err)
			return exitTooLong
		}
		if len(argv) > 0 {
			target.export(a.name, v)
		} else {
			target.vars[a.name] = v
		}
	}
	q := redirected(p, c.redirects)
	return target.run(q, argv)
}

// redirected returns p with its streams sent where the redirections say.
func redirected(p *process, to []redirect) *process {
	q := *p
	for _, r := range to {
		var w io.Writer
		switch r.to {
		case "1":
			w = q.stdout
		case "2":
			w = q.stderr
		default:
			w = io.Discard
		}
		switch r.fd {
		case 0:
			q.stdin = strings.NewReader("")
		case 1:
			q.stdout = w
		case 2:
			q.stderr = w
		}
	}
	return &q
}

// unfinished says whether text needs another line before it can be run.
func unfinished(text string) bool {
	_, err := parse(text)
	return errors.Is(err, errUnfinished)
}
