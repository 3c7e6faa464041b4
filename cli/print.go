package cli

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"golang.org/x/term"

	"berth.dev/berth/internal/visible"
)

// What moves the cursor of a terminal.
const (
	backSequence   = "\r"
	clearSequence  = "\r\x1b[K"
	screenSequence = "\x1b[H\x1b[2J"
)

//nolint:gochecknoglobals // constants, with the mark of this process
var (
	startOfLine = block(visible.Own(backSequence))
	clearLine   = block(visible.Own(clearSequence))
	clearScreen = block(visible.Own(screenSequence))
)

// guarded are options whose output passes no control sequence on but Berth's own.
func (o Options) guarded() Options {
	if o.Out != nil {
		o.Out = visible.NewWriter(o.Out)
	}
	if o.Err != nil {
		o.Err = visible.NewWriter(o.Err)
	}
	return o
}

// flush writes what the output keeps.
func (o Options) flush() {
	for _, w := range []io.Writer{o.Out, o.Err} {
		if v, ok := w.(*visible.Writer); ok {
			_ = v.Flush() // who reads it has gone
		}
	}
}

// exact is where values go for programs: as they are into files and pipes, and guarded
// on a terminal.
func exact(w io.Writer) io.Writer {
	if to := visible.To(w); !onTerminal(to) {
		return to
	}
	return w
}

// The most that is shown of what others write: characters of one text, and lines of
// one list. Kubernetes accepts selectors of a megabyte.
const (
	mostText  = 2000
	mostLines = 40
)

// lineOf is a text of others that stays one line, and fits on a screen.
func lineOf(text string) string { return visible.Line(visible.Short(text, mostText)) }

// paragraph is lines below one another, of which those after the first are indented.
func paragraph(lines []string, indent int) block {
	out := make([]string, 0, min(len(lines), mostLines)+1)
	for i, line := range lines {
		if i == mostLines {
			out = append(out, fmt.Sprintf("... [%d more]", len(lines)-i))
			break
		}
		out = append(out, lineOf(line))
	}
	return block(strings.Join(out, "\n"+strings.Repeat(" ", indent)))
}

// block is text of several lines that is put into another as it is.
type block string

// printf writes text, with what is put into it kept to its line: what the API, files
// and other people say cannot begin a line of its own. The lines of an error after
// the first are indented. All commands write by it, printLine and table; a test holds
// them to that. What acts on a terminal is left to the writer: see New.
func printf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, kept(args)...)
}

// printLine writes one line.
func printLine(w io.Writer, text string) (int, error) {
	return io.WriteString(w, lineOf(text)+"\n")
}

// printBlock writes text of Berth's own, of several lines.
func printBlock(w io.Writer, text block) (int, error) { return io.WriteString(w, string(text)) }

// onTerminal reports whether w is a terminal, whatever it can do.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// kept are values that stay in their line.
func kept(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case block:
			out[i] = string(arg)
		case error:
			out[i] = visible.Under(visible.Short(arg.Error(), 4*mostText), "  ")
		case fmt.Stringer:
			out[i] = lineOf(arg.String())
		default:
			out[i] = arg
			if v := reflect.ValueOf(arg); v.Kind() == reflect.String {
				out[i] = lineOf(v.String())
			}
		}
	}
	return out
}
