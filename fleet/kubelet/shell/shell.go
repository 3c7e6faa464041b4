// Package shell runs the few commands that a simulated container answers:
// nvidia-smi with its own devices, and a shell with loops, conditions and
// substitution to look around.
//
// It starts no process of the host, reads no file and no variable of the host,
// and has bounds on everything that a script can make grow (limits.go). There
// are no functions, no jobs in the background, and no files to write. A command
// that it lacks is refused with exit code 127 and a sentence that says so.
package shell

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth.dev/berth/fleet/smi"
)

// Machine is the container as commands see it.
type Machine struct {
	Hostname   string
	Image      string
	WorkingDir string   // "" is "/"
	Env        []string // "KEY=value", in the order that env prints
	// GPUs holds the minor numbers of the GPUs that it may open, ascending.
	// None means that the container has no GPU and no nvidia-smi.
	GPUs []int
	// Caps holds the minor numbers under /dev/nvidia-caps that its MIG devices
	// need, ascending; empty without MIG devices.
	Caps []int
	View func() smi.View  // what nvidia-smi shows now; may be nil without GPUs
	Now  func() time.Time // the clock of date and watch
}

// Exit codes that are not a command's own, as a POSIX shell has them.
const (
	exitUsage       = 2   // a command line that cannot be read
	exitTooLong     = 126 // a command that cannot be started
	exitNotFound    = 127 // no such command
	exitInterrupted = 130 // 128 and SIGINT
)

// maxDepth bounds how deep sh -c, watch, timeout and env may call one another,
// so that a command that names itself ends.
const maxDepth = 16

// Run runs one command, given as its words, and returns its exit code. A nil
// stdin is an empty one. It returns when the command is done or soon after ctx
// ends; then the code is 130 unless the command had its own.
func Run(ctx context.Context, m Machine, argv []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	sh := newInterp(m)
	mu := new(sync.Mutex)
	stdout, stderr = &locked{mu, &counted{stdout, sh.lim, maxOutput}}, &locked{mu, &counted{stderr, sh.lim, maxOutput + maxComplaint}}
	return sh.run(&process{ctx: ctx, sh: sh, stdin: stdin, stdout: stdout, stderr: stderr}, argv)
}

// Commands returns the names of the commands that a container with a GPU
// answers, sorted.
func Commands() []string {
	return visible(builtins())
}

// locked is a writer that the stages of a pipeline may share.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// visible returns the names in table, sorted, without those that are part of the
// shell's language.
func visible(table map[string]builtin) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(table)), func(name string) bool {
		return name == "[" || name == "break" || name == "continue"
	})
}

// interp is the state of one shell: its variables, folder and last exit code.
type interp struct {
	m      Machine
	vars   map[string]string
	order  []string // names of vars that env prints, in order
	grown  int      // bytes of names and values that a script has set
	params []string // $1 and on
	dir    string
	status int
	exited bool // exit has been called
	depth  int
	table  map[string]builtin
	lim    *limits // shared by all that one command starts

	patterns    bool // see script
	substituted int  // exit code of the last $(...)
	loops       int  // that are running
	leave, next int  // loops that break leaves, and that continue goes on with
}

// builtin is one command.
type builtin func(p *process) int

// process is one run of one command.
type process struct {
	ctx            context.Context //nolint:containedctx // it lives as long as the call
	sh             *interp
	name           string
	args           []string // without the name
	stdin          io.Reader
	stdout, stderr io.Writer
}

func newInterp(m Machine) *interp {
	sh := &interp{m: m, vars: map[string]string{}, dir: m.WorkingDir, table: builtins(), lim: new(limits)}
	if sh.dir == "" {
		sh.dir = "/"
	}
	for _, kv := range m.Env {
		name, value, _ := strings.Cut(kv, "=")
		sh.export(name, value)
	}
	return sh
}

// export sets a variable that env prints.
func (sh *interp) export(name, value string) {
	sh.exported(name)
	sh.vars[name] = value
}

// fork copies the state, as a subshell has it.
func (sh *interp) fork() *interp {
	child := *sh
	child.vars = maps.Clone(sh.vars)
	child.order = slices.Clone(sh.order)
	child.exited = false
	child.loops, child.leave, child.next = 0, 0, 0
	return &child
}

// run starts the command that argv names with the streams of p.
func (sh *interp) run(p *process, argv []string) int {
	if len(argv) == 0 {
		return 0
	}
	if sh.depth >= maxDepth {
		fmt.Fprintf(p.stderr, "%s: commands call one another more than %d deep\n", argv[0], maxDepth)
		return exitTooLong
	}
	name := argv[0]
	for _, dir := range []string{"/usr/local/cuda/bin/", "/usr/local/bin/", "/usr/bin/", "/bin/"} {
		if rest, ok := strings.CutPrefix(name, dir); ok {
			name = rest
			break
		}
	}
	cmd, ok := sh.table[name]
	if !ok || !sh.has(name) {
		fmt.Fprintln(p.stderr, sh.missing(argv[0], name))
		return exitNotFound
	}
	sh.depth++
	code := cmd(&process{
		ctx: p.ctx, sh: sh, name: name, args: argv[1:],
		stdin: p.stdin, stdout: p.stdout, stderr: p.stderr,
	})
	sh.depth--
	if code == 0 && p.ctx.Err() != nil && name != "timeout" {
		return exitInterrupted
	}
	return code
}

// has reports whether this container would have the command name.
func (sh *interp) has(name string) bool {
	switch name {
	case "nvidia-smi":
		return len(sh.m.GPUs) > 0 && sh.m.View != nil
	case "nvcc":
		return strings.Contains(sh.m.Image, "devel")
	}
	_, ok := sh.table[name]
	return ok
}

// missing is the sentence for a command that the container lacks.
func (sh *interp) missing(typed, name string) string {
	switch name {
	case "nvidia-smi":
		return typed + ": command not found: this container holds no GPU, and only GPU containers get the driver's tools; request nvidia.com/gpu"
	case "nvcc":
		return fmt.Sprintf("%s: command not found: image %q has no CUDA compiler; use a devel image", typed, sh.m.Image)
	}
	var can []string
	for _, name := range visible(sh.table) {
		if sh.has(name) {
			can = append(can, name)
		}
	}
	return fmt.Sprintf("%s: command not found\nberth: this container is simulated; it can run: %s", typed, strings.Join(can, ", "))
}
