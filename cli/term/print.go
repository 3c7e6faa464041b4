// Package term is what the commands write to: text for people that stays in its line, tables,
// objects in the formats of kubectl, errors, and exit codes. It knows no cluster.
package term

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	xterm "golang.org/x/term"

	"berth.dev/berth/internal/datadir"
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
	// StartOfLine moves to the start of the line.
	StartOfLine = Block(visible.Own(backSequence))
	// ClearLine empties the line, and moves to its start.
	ClearLine = Block(visible.Own(clearSequence))
	// ClearScreen empties the screen.
	ClearScreen = Block(visible.Own(screenSequence))
)

// Guard is w, if it is not nil, without control sequences that are not Berth's own.
func Guard(w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	return visible.NewWriter(w)
}

// Flush writes what guarded writers keep.
func Flush(list ...io.Writer) {
	for _, w := range list {
		if v, ok := w.(*visible.Writer); ok {
			_ = v.Flush() // who reads it has gone
		}
	}
}

// Exact is where values go for programs: as they are into files and pipes, and guarded
// on a terminal.
func Exact(w io.Writer) io.Writer {
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

// Paragraph is lines below one another, of which those after the first are indented.
func Paragraph(lines []string, indent int) Block {
	out := make([]string, 0, min(len(lines), mostLines)+1)
	for i, line := range lines {
		if i == mostLines {
			out = append(out, fmt.Sprintf("... [%d more]", len(lines)-i))
			break
		}
		out = append(out, lineOf(line))
	}
	return Block(strings.Join(out, "\n"+strings.Repeat(" ", indent)))
}

// Block is text of several lines that is put into another as it is.
type Block string

// Printf writes text, with what is put into it kept to its line: what the API, files
// and other people say cannot begin a line of its own. The lines of an error after
// the first are indented. All commands write by it, printLine and table; a test holds
// them to that. What acts on a terminal is left to the writer: see New.
func Printf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, kept(args)...)
}

// PrintLine writes one line.
func PrintLine(w io.Writer, text string) (int, error) {
	return io.WriteString(w, lineOf(text)+"\n")
}

// PrintBlock writes text of Berth's own, of several lines.
func PrintBlock(w io.Writer, text Block) (int, error) { return io.WriteString(w, string(text)) }

// onTerminal reports whether w is a terminal, whatever it can do.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && xterm.IsTerminal(int(f.Fd()))
}

// kept are values that stay in their line.
func kept(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case Block:
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

// IsTerminal reports whether w is a terminal that colors and moving lines suit.
func IsTerminal(w io.Writer) bool {
	f, ok := visible.To(w).(*os.File)
	return ok && xterm.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" && os.Getenv("CI") == ""
}

// ShellPath is a path as it can be pasted into a shell.
func ShellPath(path string) string {
	short := datadir.Dir(path).Short()
	if strings.ContainsAny(short, " \t'\"$`\\()&;|<>*?[]#") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return short
}
