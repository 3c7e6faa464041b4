package shell

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
)

// number reads a whole number.
func number(s string) (int, error) { return strconv.Atoi(strings.TrimSpace(s)) }

// testCommand is test and [. It reads one condition, which ! may precede; -a,
// -o and parentheses are refused: the shell's own && and || do that.
func testCommand(p *process) int {
	args := p.args
	if p.name == "[" {
		if len(args) == 0 || args[len(args)-1] != "]" {
			return p.fail(exitUsage, "missing ]")
		}
		args = args[:len(args)-1]
	}
	not := len(args) > 1 && args[0] == "!"
	if not {
		args = args[1:]
	}
	is, err := p.condition(args)
	switch {
	case err != nil:
		return p.fail(exitUsage, "%v", err)
	case is == not:
		return 1
	}
	return 0
}

// condition evaluates at most three words.
func (p *process) condition(args []string) (bool, error) {
	switch len(args) {
	case 0:
		return false, nil
	case 1:
		return args[0] != "", nil
	case 2:
		e, ok := p.sh.m.stat(p.sh.abs(args[1]))
		switch args[0] {
		case "-n":
			return args[1] != "", nil
		case "-z":
			return args[1] == "", nil
		case "-e", "-r":
			return ok, nil
		case "-d":
			return ok && e.dir, nil
		case "-f":
			return ok && !e.dir && e.major == 0, nil
		case "-c":
			return ok && e.major > 0, nil
		}
	case 3:
		return compare(args[0], args[1], args[2])
	}
	return false, errors.New("not a condition: one of -n -z -e -d -f -c = != -eq -ne -lt -le -gt -ge")
}

func compare(a, op, b string) (bool, error) {
	switch op {
	case "=", "==":
		return a == b, nil
	case "!=":
		return a != b, nil
	}
	x, err := number(a)
	y, err2 := number(b)
	if err != nil || err2 != nil {
		return false, fmt.Errorf("%s %s %s: integers expected", a, op, b)
	}
	switch op {
	case "-eq":
		return x == y, nil
	case "-ne":
		return x != y, nil
	case "-lt":
		return x < y, nil
	case "-le":
		return x <= y, nil
	case "-gt":
		return x > y, nil
	case "-ge":
		return x >= y, nil
	}
	return false, fmt.Errorf("%s is not a comparison", op)
}

// seqCommand prints the whole numbers from FIRST (1) to LAST.
func seqCommand(p *process) int {
	from, step, to := 1, 1, 0
	into := map[int][]*int{1: {&to}, 2: {&from, &to}, 3: {&from, &step, &to}}[len(p.args)]
	if into == nil {
		return p.fail(1, "usage: seq [FIRST [STEP]] LAST")
	}
	for i, a := range p.args {
		n, err := strconv.ParseInt(a, 10, 32)
		if err != nil || into[i] == &step && n == 0 {
			return p.fail(1, "invalid argument %q", a)
		}
		*into[i] = int(n)
	}
	for ; step > 0 && from <= to || step < 0 && from >= to; from += step {
		if _, err := fmt.Fprintln(p.stdout, from); err != nil || p.ctx.Err() != nil {
			return 1
		}
	}
	return 0
}

// wide is a conversion of printf whose width or precision is over 999.
var wide = regexp.MustCompile(`%[-+ #0]*([0-9]{4,}|[0-9]*\.[0-9]{4,})`)

// printfCommand prints its arguments by a format, again and again while there
// are arguments left.
func printfCommand(p *process) int {
	if len(p.args) == 0 {
		return p.fail(exitUsage, "usage: printf FORMAT [ARGUMENT]...")
	}
	format, args := p.args[0], p.args[1:len(p.args):len(p.args)]
	if len(format) > maxPatternBytes || wide.MatchString(format) {
		return p.fail(1, "the format is too wide for a simulated container")
	}
	for {
		s, n, err := expand.Format(new(expand.Config), format, args)
		if err != nil {
			return p.fail(1, "%v", err)
		}
		if _, err := fmt.Fprint(p.stdout, s); err != nil || p.ctx.Err() != nil {
			return 1
		}
		if args = args[n:]; n == 0 || len(args) == 0 {
			return 0
		}
	}
}
