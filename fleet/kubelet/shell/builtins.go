package shell

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"berth.dev/berth/fleet/smi"
	"berth.dev/berth/internal/pause"
)

// builtins returns every command by its name.
func builtins() map[string]builtin {
	return map[string]builtin{
		":":        func(*process) int { return 0 },
		"[":        testCommand,
		"bash":     shCommand,
		"break":    leaveCommand,
		"cat":      catCommand,
		"cd":       cdCommand,
		"command":  whichCommand,
		"continue": leaveCommand,
		"date":     dateCommand,
		"echo":     echoCommand,
		"env":      envCommand,
		"exec":     func(p *process) int { return p.sh.run(p, p.args) },
		"exit":     exitCommand,
		"export":   exportCommand,
		"false":    func(*process) int { return 1 },
		"grep":     grepCommand,
		"head":     headCommand,
		"help":     helpCommand,
		"hostname": func(p *process) int { return p.line(p.sh.m.Hostname) },
		"id":       func(p *process) int { return p.line("uid=0(root) gid=0(root) groups=0(root)") },
		"ls":       lsCommand,
		"nvcc":     nvccCommand,
		"nvidia-smi": func(p *process) int {
			return smi.Run(p.ctx, p.sh.m.View, p.args, p.stdout, p.stderr)
		},
		"printenv": printenvCommand,
		"printf":   printfCommand,
		"pwd":      func(p *process) int { return p.line(p.sh.dir) },
		"read":     readCommand,
		"seq":      seqCommand,
		"sh":       shCommand,
		"sleep":    sleepCommand,
		"tail":     tailCommand,
		"test":     testCommand,
		"timeout":  timeoutCommand,
		"true":     func(*process) int { return 0 },
		"unset":    unsetCommand,
		"watch":    watchCommand,
		"wc":       wcCommand,
		"which":    whichCommand,
		"whoami":   func(p *process) int { return p.line("root") },
	}
}

// line prints one line and returns 0.
func (p *process) line(s string) int {
	fmt.Fprintln(p.stdout, s)
	return 0
}

// fail prints a complaint in the command's name and returns code.
func (p *process) fail(code int, format string, a ...any) int {
	fmt.Fprintf(p.stderr, p.name+": "+format+"\n", a...)
	return code
}

func helpCommand(p *process) int {
	var can []string
	for _, name := range Commands() {
		if p.sh.has(name) {
			can = append(can, name)
		}
	}
	return p.line("This container is simulated by Berth. It can run: " + strings.Join(can, ", "))
}

// maxPendingLines is the longest statement that is read line by line; each line
// parses those before it again.
const maxPendingLines = 500

// shCommand is sh and bash: -c TEXT, or lines from stdin.
func shCommand(p *process) int {
	for i, a := range p.args {
		if !strings.HasPrefix(a, "-") {
			return p.fail(exitNotFound, "%s: no such file: a simulated container has no scripts; use %s -c", a, p.name)
		}
		if !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c") {
			if i+1 == len(p.args) {
				return p.fail(exitUsage, "-c: option requires an argument")
			}
			child := p.sh.fork()
			child.status, child.params = 0, nil
			if len(p.args) > i+3 {
				child.params = p.args[i+3:]
			}
			return child.eval(p, p.args[i+1])
		}
		if a == "--version" {
			return p.line("GNU bash is not here: this is the shell of a simulated container")
		}
	}
	child := p.sh.fork()
	child.status = 0
	pending, more := "", 0
	for line := range lines(p.stdin) {
		if pending += line + "\n"; more < maxPendingLines && unfinished(pending) {
			more++
			continue
		}
		child.eval(p, pending)
		pending, more = "", 0
		if child.exited || p.ctx.Err() != nil {
			return child.status
		}
	}
	if pending != "" {
		child.eval(p, pending)
	}
	return child.status
}

func exitCommand(p *process) int {
	p.sh.exited = true
	if len(p.args) == 0 {
		return p.sh.status
	}
	n, err := strconv.Atoi(p.args[0])
	if err != nil {
		return p.fail(exitUsage, "%s: numeric argument required", p.args[0])
	}
	return n & 0xff
}

func cdCommand(p *process) int {
	dir := "/root"
	if len(p.args) > 0 {
		dir = p.sh.abs(p.args[0])
	}
	if !p.sh.m.isDir(dir) {
		return p.fail(1, "%s: No such file or directory", dir)
	}
	p.sh.dir = dir
	return 0
}

func echoCommand(p *process) int {
	args, end, escapes := p.args, "\n", false
	for len(args) > 0 && regexp.MustCompile(`^-[neE]+$`).MatchString(args[0]) {
		if strings.Contains(args[0], "n") {
			end = ""
		}
		escapes = strings.LastIndexByte(args[0], 'e') > strings.LastIndexByte(args[0], 'E')
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if escapes {
		text = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t").Replace(text)
	}
	fmt.Fprint(p.stdout, text+end)
	return 0
}

// envCommand prints the environment, or runs a command with additions to it.
func envCommand(p *process) int {
	child := p.sh.fork()
	args := p.args
	for len(args) > 0 {
		name, value, ok := strings.Cut(args[0], "=")
		if !ok || !syntax.ValidName(name) {
			break
		}
		child.export(name, value)
		args = args[1:]
	}
	if len(args) > 0 {
		return child.run(p, args)
	}
	for _, name := range child.order {
		fmt.Fprintf(p.stdout, "%s=%s\n", name, child.vars[name])
	}
	return 0
}

func printenvCommand(p *process) int {
	if len(p.args) == 0 {
		return envCommand(p)
	}
	code := 0
	for _, name := range p.args {
		if !slices.Contains(p.sh.order, name) {
			code = 1
			continue
		}
		p.line(p.sh.vars[name])
	}
	return code
}

func exportCommand(p *process) int {
	for _, a := range p.args {
		name, value, ok := strings.Cut(a, "=")
		if !syntax.ValidName(name) {
			return p.fail(exitUsage, "%s: not a variable's name", a)
		}
		if !ok {
			value = p.sh.vars[name]
		}
		if err := p.sh.set(name, value); err != nil {
			return p.fail(1, "%v", err)
		}
		p.sh.exported(name)
	}
	return 0
}

func unsetCommand(p *process) int {
	for _, name := range p.args {
		p.sh.unset(name)
	}
	return 0
}

func whichCommand(p *process) int {
	code := 0
	for _, name := range p.args {
		switch {
		case strings.HasPrefix(name, "-"): // command -v
		case p.sh.has(path.Base(name)):
			p.line("/usr/bin/" + path.Base(name))
		default:
			code = 1
		}
	}
	return code
}

// seconds reads a length of time as sleep does: a number with s, m, h or d.
func seconds(s string) (time.Duration, error) {
	if s == "infinity" || s == "inf" {
		return math.MaxInt64, nil
	}
	unit := time.Second
	if n := len(s); n > 0 {
		if u, ok := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[s[n-1]]; ok {
			unit, s = u, s[:n-1]
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v < 0 || math.IsNaN(v) {
		return 0, errors.New("not a length of time")
	}
	if v*float64(unit) >= math.MaxInt64 {
		return math.MaxInt64, nil
	}
	return time.Duration(v * float64(unit)), nil
}

func sleepCommand(p *process) int {
	if len(p.args) == 0 {
		return p.fail(1, "missing operand")
	}
	var total time.Duration
	for _, a := range p.args {
		d, err := seconds(a)
		if err != nil {
			return p.fail(1, "invalid time interval %q", a)
		}
		if total += d; total < 0 {
			total = math.MaxInt64
		}
	}
	if !pause.For(p.ctx, total) {
		return exitInterrupted
	}
	return 0
}

func timeoutCommand(p *process) int {
	if len(p.args) < 2 {
		return p.fail(125, "usage: timeout SECONDS COMMAND")
	}
	d, err := seconds(p.args[0])
	if err != nil {
		return p.fail(125, "invalid time interval %q", p.args[0])
	}
	ctx, cancel := context.WithTimeout(p.ctx, d)
	defer cancel()
	q := *p
	q.ctx = ctx
	code := p.sh.run(&q, p.args[1:])
	switch {
	case p.ctx.Err() != nil:
		return exitInterrupted
	case ctx.Err() != nil:
		return 124
	}
	return code
}
