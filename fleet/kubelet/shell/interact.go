package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Size is the size of a terminal in characters.
type Size struct{ Width, Height int }

// Interactive reports whether argv starts a shell that reads what a person types:
// sh or bash without -c and without a script.
func Interactive(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	name := strings.TrimPrefix(strings.TrimPrefix(argv[0], "/usr"), "/bin/")
	if name != "sh" && name != "bash" {
		return false
	}
	for _, a := range argv[1:] {
		if !strings.HasPrefix(a, "-") || strings.HasSuffix(a, "c") || a == "--version" {
			return false
		}
	}
	return true
}

// banner tells a person where they are.
const banner = "This container is simulated by Berth: nothing runs here, and nothing is kept.\nType help for what it can do, exit to leave.\n"

// Interact reads and runs lines from a terminal in raw mode until exit, Ctrl-D
// or the end of stdin, and returns the last exit code. Ctrl-C ends the command
// that runs, or clears the line. Sizes may be nil.
//
// One goroutine goes on reading stdin until that ends, which is when the
// caller closes the connection behind it.
func Interact(ctx context.Context, m Machine, stdin io.Reader, out io.Writer, sizes <-chan Size) int {
	keys := newKeyboard(stdin, nil)
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, out}, "")
	done := make(chan struct{})
	defer close(done)
	go resize(t, sizes, done)

	sh := newInterp(m)
	fmt.Fprint(t, banner)
	pending := ""
	for !sh.exited && ctx.Err() == nil {
		t.SetPrompt(fmt.Sprintf("root@%s:%s# ", m.Hostname, sh.dir))
		if pending != "" {
			t.SetPrompt("> ")
		}
		line, err := t.ReadLine()
		if err != nil && !errors.Is(err, term.ErrPasteIndicator) {
			fmt.Fprint(t, "exit\n")
			break
		}
		pending += line + "\n"
		if strings.TrimSpace(line) != "" && unfinished(pending) {
			continue
		}
		run, cancel := context.WithCancel(ctx)
		keys.interrupts(cancel)
		sh.lim = new(limits)
		w := &locked{new(sync.Mutex), &counted{t, sh.lim, maxOutput + maxComplaint}}
		sh.eval(&process{ctx: run, sh: sh, stdin: strings.NewReader(""), stdout: w, stderr: w}, pending)
		keys.interrupts(nil)
		cancel()
		pending = ""
	}
	return sh.status
}

// resize follows the size of the terminal until done or until sizes closes.
func resize(t *term.Terminal, sizes <-chan Size, done <-chan struct{}) {
	for {
		select {
		case s, ok := <-sizes:
			if !ok {
				return
			}
			_ = t.SetSize(max(s.Width, 1), max(s.Height, 1))
		case <-done:
			return
		}
	}
}

// Interruptible reads a terminal in raw mode for a command that is not a
// shell: what is typed can be read from the result, and Ctrl-C calls stop.
// Its goroutine ends when stdin does.
func Interruptible(stdin io.Reader, stop func()) io.Reader {
	return newKeyboard(stdin, stop)
}

// keyboard reads what is typed, so Ctrl-C is seen while a command runs.
type keyboard struct {
	mu   sync.Mutex
	more *sync.Cond
	buf  []byte
	err  error
	stop func() // called at Ctrl-C; nil at the prompt
}

// newKeyboard begins to read stdin; Ctrl-C calls stop, which may be nil.
func newKeyboard(stdin io.Reader, stop func()) *keyboard {
	k := &keyboard{stop: stop}
	k.more = sync.NewCond(&k.mu)
	go k.pump(stdin)
	return k
}

func (k *keyboard) interrupts(stop func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop = stop
}

// maxTyped bounds what is held of input that is not read.
const maxTyped = 1 << 20

func (k *keyboard) pump(stdin io.Reader) {
	b := make([]byte, 1024)
	for {
		n, err := stdin.Read(b)
		k.mu.Lock()
		for _, c := range b[:n] {
			switch {
			case c != 3:
				if len(k.buf) < maxTyped {
					k.buf = append(k.buf, c)
				}
			case k.stop != nil:
				k.stop()
				k.buf = nil
			default:
				k.buf = append(k.buf, 5, 21, '\r') // end of line, erase it, enter
			}
		}
		k.err = err
		k.more.Broadcast()
		k.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Read returns what was typed, waiting for some.
func (k *keyboard) Read(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.buf) == 0 && k.err == nil {
		k.more.Wait()
	}
	if len(k.buf) == 0 {
		return 0, k.err
	}
	n := copy(b, k.buf)
	k.buf = k.buf[n:]
	return n, nil
}
