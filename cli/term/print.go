// Package term is what the commands write to: text for people that stays in its line, tables,
// objects in the formats of kubectl, errors, and exit codes. It knows no cluster.
package term

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"unicode/utf8"

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

// Section is a name and below one another what is said of it, from the tenth column on. A screen that cuts has each line as several
// where it is too long, with those after its first a little further in.
func (s Screen) Section(name string, lines ...string) Block {
	var out []string
	for _, line := range lines {
		if len(out) == mostLines {
			out = append(out, fmt.Sprintf("... [%d more]", len(lines)-mostLines))
			break
		}
		line = lineOf(line)
		if s.Cut && s.Width > 0 {
			further := ""
			if len(lines) > 1 {
				further = "  "
			}
			line = strings.Join(visible.Wrap(line, max(goodText, s.Width-sectionIndent-len(further))), "\n"+strings.Repeat(" ", sectionIndent)+further)
		}
		out = append(out, line)
	}
	return Block(fmt.Sprintf("%-*s%s\n", sectionIndent, lineOf(name), strings.Join(out, "\n"+strings.Repeat(" ", sectionIndent))))
}

// Wrapped is lines of text, each as several on a screen that cuts and is narrower. Those after its first are indented further than it.
func (s Screen) Wrapped(lines ...string) Block {
	var out strings.Builder
	for _, line := range lines {
		line = lineOf(line)
		if s.Cut && s.Width > 0 && utf8.RuneCountInString(line) > s.Width {
			text := strings.TrimLeft(line, " ")
			lead := line[:len(line)-len(text)]
			line = lead + strings.Join(visible.Wrap(text, max(goodText, s.Width-len(lead)-2)), "\n"+lead+"  ")
		}
		out.WriteString(line + "\n")
	}
	return Block(out.String())
}

// sectionIndent is where the text of a section begins.
const sectionIndent = 9

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
