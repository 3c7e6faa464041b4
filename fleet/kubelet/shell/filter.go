package shell

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lines yields the lines of r without their newlines, up to a megabyte each.
func lines(r io.Reader) iter.Seq[string] {
	return func(yield func(string) bool) {
		s := bufio.NewScanner(r)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			if !yield(s.Text()) {
				return
			}
		}
	}
}

// inputs returns the text of the named files one after the other, or stdin if
// none is named. It complains of each file that is not there.
func (p *process) inputs(names []string) (io.Reader, int) {
	if len(names) == 0 {
		return p.stdin, 0
	}
	var rs []io.Reader
	code := 0
	for _, name := range names {
		text, ok := p.sh.m.file(p.sh.abs(name))
		switch {
		case name == "-":
			rs = append(rs, p.stdin)
		case ok:
			rs = append(rs, strings.NewReader(text))
		case p.sh.m.isDir(p.sh.abs(name)):
			code = p.fail(1, "%s: Is a directory", name)
		default:
			code = p.fail(1, "%s: No such file or directory", name)
		}
	}
	return io.MultiReader(rs...), code
}

func catCommand(p *process) int {
	in, code := p.inputs(p.args)
	_, _ = io.Copy(p.stdout, in) // a pipe whose reader has gone ends it
	return code
}

// flags parses single letters such as -in and letters with a number such as
// -A3 or -A 3; what is left are operands.
func flags(args []string, plain, numbered string) (set map[rune]int, rest []string, err error) {
	set = map[rune]int{}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return set, append(rest, args[i+1:]...), nil
		}
		if strings.HasPrefix(a, "--color") {
			continue
		}
		if len(a) < 2 || a[0] != '-' {
			rest = append(rest, a)
			continue
		}
		for j, f := range a[1:] {
			if strings.ContainsRune(plain, f) {
				set[f] = 1
				continue
			}
			if !strings.ContainsRune(numbered, f) {
				return nil, nil, fmt.Errorf("-%c is not supported in a simulated container", f)
			}
			number := strings.TrimPrefix(a[1+j+1:], "=")
			if number == "" {
				if i++; i == len(args) {
					return nil, nil, fmt.Errorf("-%c needs a number", f)
				}
				number = args[i]
			}
			n, err := strconv.Atoi(strings.TrimPrefix(number, "+"))
			if err != nil {
				return nil, nil, fmt.Errorf("%q is not a number", number)
			}
			set[f] = n
			break
		}
	}
	return set, rest, nil
}

func headCommand(p *process) int {
	n, in, code := p.count()
	if in == nil {
		return code
	}
	if n == 0 {
		return code
	}
	for line := range lines(in) {
		p.line(line)
		if n--; n == 0 {
			break
		}
	}
	return code
}

func tailCommand(p *process) int {
	n, in, code := p.count()
	if in == nil {
		return code
	}
	n = min(n, 1<<16)
	var last []string
	bytes := 0
	for line := range lines(in) {
		if bytes += len(line); bytes > maxKeptBytes {
			return p.fail(1, "lines too long to keep")
		}
		if last = append(last, line); len(last) > 2*n {
			last = slices.Clone(last[len(last)-n:])
			bytes = 0
			for _, l := range last {
				bytes += len(l)
			}
		}
	}
	for _, line := range last[max(0, len(last)-n):] {
		p.line(line)
	}
	return code
}

// count reads the arguments of head and tail: -n 3, -n3 or -3.
func (p *process) count() (int, io.Reader, int) {
	args := slices.Clone(p.args)
	for i, a := range args {
		if len(a) > 1 && a[0] == '-' && a[1] >= '0' && a[1] <= '9' {
			args[i] = "-n" + a[1:]
		}
	}
	set, names, err := flags(args, "q", "n")
	if err != nil {
		return 0, nil, p.fail(1, "%v", err)
	}
	n, ok := set['n']
	if !ok {
		n = 10
	}
	if n < 0 {
		return 0, nil, p.fail(1, "a count below 0 is not supported in a simulated container")
	}
	in, code := p.inputs(names)
	return n, in, code
}

func wcCommand(p *process) int {
	set, names, err := flags(p.args, "lwc", "")
	if err != nil {
		return p.fail(1, "%v", err)
	}
	in, code := p.inputs(names)
	n := map[rune]int{}
	r := bufio.NewReader(in)
	inWord := false
	for b, err := r.ReadByte(); err == nil; b, err = r.ReadByte() {
		n['c']++
		blank := b == ' ' || b == '\t' || b == '\r' || b == '\n'
		if b == '\n' {
			n['l']++
		}
		if !blank && !inWord {
			n['w']++
		}
		inWord = !blank
	}
	var cols []string
	for _, f := range "lwc" {
		if set[f] == 1 || len(set) == 0 {
			cols = append(cols, strconv.Itoa(n[f]))
		}
	}
	if len(names) == 1 {
		cols = append(cols, names[0])
	}
	p.line(strings.Join(cols, " "))
	return code
}

// maxContext is the most lines before a match that grep prints.
const maxContext = 100

// grepCommand prints the lines that match, with -i -v -c -n -o -q -w -E -F and
// lines around them with -A -B -C. It returns 0 if a line was picked, 1 if
// none was and 2 if the pattern cannot be read.
func grepCommand(p *process) int {
	set, rest, err := flags(p.args, "ivcnoqwEFGhe", "ABC")
	if err == nil && len(rest) == 0 {
		err = errors.New("usage: grep [-ivcnoqwEF] [-A N] [-B N] PATTERN")
	}
	if err != nil {
		return p.fail(2, "%v", err)
	}
	re, err := pattern(rest[0], set)
	if err != nil {
		return p.fail(2, "%v", err)
	}
	in, code := p.inputs(rest[1:])
	if code != 0 {
		return 2
	}
	before, after := min(max(set['B'], set['C']), maxContext), max(set['A'], set['C'])
	var held []string
	picked, left, number, printed := 0, 0, 0, 0
	show := func(mark, line string, n int) {
		if set['n'] == 1 {
			line = strconv.Itoa(n) + mark + line
		}
		p.line(line)
		printed = n
	}
	for line := range lines(in) {
		number++
		match := re.MatchString(line) != (set['v'] == 1)
		if match {
			picked++
		}
		switch {
		case match && set['q'] == 1:
			return 0
		case set['c'] == 1:
		case match && set['o'] == 1 && set['v'] == 0:
			for _, m := range re.FindAllString(line, -1) {
				if m != "" {
					show(":", m, number)
				}
			}
		case match:
			if before+after > 0 && printed > 0 && number-len(held)-1 > printed {
				p.line("--")
			}
			for i, h := range held {
				show("-", h, number-len(held)+i)
			}
			held, left = nil, after
			show(":", line, number)
		case left > 0:
			left--
			show("-", line, number)
		case before > 0:
			held = append(held, line)
			held = slices.Clone(held[max(0, len(held)-before):])
		}
	}
	if set['c'] == 1 {
		p.line(strconv.Itoa(picked))
	}
	if picked == 0 {
		return 1
	}
	return 0
}

// pattern compiles a pattern of grep: basic, extended (-E) or fixed (-F).
func pattern(text string, set map[rune]int) (*regexp.Regexp, error) {
	switch {
	case set['F'] == 1:
		text = regexp.QuoteMeta(text)
	case set['E'] == 0:
		text = basic(text)
	}
	if set['w'] == 1 {
		text = `\b(?:` + text + `)\b`
	}
	if set['i'] == 1 {
		text = "(?i)" + text
	}
	return regexp.Compile(text)
}

// basic turns a POSIX basic regular expression into an extended one: there
// \| \+ \? \( \) \{ \} are the operators and the plain characters are not.
func basic(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			i++
			if strings.IndexByte("|+?(){}", text[i]) < 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(text[i])
		case strings.IndexByte("|+?(){}", c) >= 0, c == '*' && i == 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
