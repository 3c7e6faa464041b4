package shell

import (
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// choose runs if, elif and else.
func (sh *interp) choose(p *process, c *syntax.IfClause) int {
	for ; c != nil; c = c.Else {
		if len(c.Cond) > 0 { // else has none
			if sh.list(p, c.Cond); sh.stopped(p) {
				return sh.status
			}
			if sh.status != 0 {
				continue
			}
		}
		sh.status = 0
		sh.list(p, c.Then)
		return sh.status
	}
	return 0
}

// round runs the body of a loop once and reports whether the loop goes on.
func (sh *interp) round(p *process, body []*syntax.Stmt) bool {
	sh.loops++
	sh.list(p, body)
	sh.loops--
	if sh.leave > 0 {
		sh.leave--
		return false
	}
	if sh.next > 0 {
		if sh.next--; sh.next > 0 {
			return false
		}
	}
	return !sh.stopped(p)
}

// while runs while and until.
func (sh *interp) while(p *process, c *syntax.WhileClause) int {
	code := 0
	for sh.step(p) {
		if sh.list(p, c.Cond); sh.stopped(p) {
			return sh.status
		}
		if (sh.status == 0) == c.Until {
			return code
		}
		on := sh.round(p, c.Do)
		if code = sh.status; !on {
			return code
		}
	}
	return sh.status
}

// each runs for NAME in WORDS and for ((...)).
func (sh *interp) each(p *process, c *syntax.ForClause) int {
	if loop, ok := c.Loop.(*syntax.CStyleLoop); ok {
		return sh.countLoop(p, c, loop)
	}
	loop := c.Loop.(*syntax.WordIter)
	words := sh.params
	if loop.InPos.IsValid() {
		var err error
		if words, err = p.fields(loop.Items...); err != nil {
			return sh.complain(p, err)
		}
	}
	code := 0
	for _, w := range words {
		if !sh.step(p) {
			return sh.status
		}
		if err := sh.set(loop.Name.Value, w); err != nil {
			return sh.complain(p, err)
		}
		on := sh.round(p, c.Do)
		if code = sh.status; !on {
			break
		}
	}
	return code
}

// countLoop runs for ((init; cond; post)).
func (sh *interp) countLoop(p *process, c *syntax.ForClause, loop *syntax.CStyleLoop) int {
	value := func(e syntax.ArithmExpr) (int, bool) {
		if e == nil {
			return 1, true
		}
		n, err := p.arithmetic(e)
		if err != nil {
			sh.complain(p, err)
		}
		return n, err == nil
	}
	code := 0
	for _, ok := value(loop.Init); ok && sh.step(p); _, ok = value(loop.Post) {
		n, ok := value(loop.Cond)
		if !ok {
			return sh.status
		}
		if n == 0 {
			return code
		}
		on := sh.round(p, c.Do)
		if code = sh.status; !on {
			return code
		}
	}
	return sh.status
}

// match runs case.
func (sh *interp) match(p *process, c *syntax.CaseClause) int {
	s, err := p.value(c.Word)
	if err != nil {
		return sh.complain(p, err)
	}
	sh.status = 0
	for _, item := range c.Items {
		for _, w := range item.Patterns {
			ok, err := p.matches(w, s)
			if err != nil {
				return sh.complain(p, err)
			}
			if ok {
				sh.list(p, item.Stmts)
				return sh.status
			}
		}
	}
	return 0
}

// leaveCommand is break and continue.
func leaveCommand(p *process) int {
	n := 1
	if len(p.args) > 0 {
		var err error
		if n, err = number(p.args[0]); err != nil || n < 1 {
			return p.fail(exitUsage, "%s: not a count of loops", p.args[0])
		}
	}
	n = min(n, p.sh.loops)
	if p.name == "break" {
		p.sh.leave = n
	} else {
		p.sh.next = n
	}
	return 0
}

// readCommand reads one line of stdin into variables.
func readCommand(p *process) int {
	names, raw := p.args, false
	for len(names) > 0 && len(names[0]) > 1 && names[0][0] == '-' {
		if names[0] != "-r" {
			return p.fail(exitUsage, "%s is not supported in a simulated container", names[0])
		}
		names, raw = names[1:], true
	}
	if len(names) == 0 {
		names = []string{"REPLY"}
	}
	var line []byte
	code := 0
	for b := make([]byte, 1); ; {
		n, err := p.stdin.Read(b)
		if n == 1 && b[0] != '\n' {
			line = append(line, b[0])
		}
		if len(line) > maxWordBytes {
			return p.fail(1, "%v", errTooLong)
		}
		if n == 1 && b[0] == '\n' {
			break
		}
		if err != nil {
			code = 1
			break
		}
	}
	cfg := newExpansion(p)
	values := expand.ReadFields(cfg, string(line), len(names), raw)
	for i, name := range names {
		v := ""
		if i < len(values) {
			v = values[i]
		}
		if !syntax.ValidName(name) {
			return p.fail(exitUsage, "%s: not a variable's name", name)
		}
		if err := p.sh.set(name, v); err != nil {
			return p.fail(1, "%v", err)
		}
	}
	return code
}
