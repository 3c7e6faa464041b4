package cluster

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/internal/datadir"
)

// progress shows the steps of a start: one line each, with the time it took. On
// a terminal the step that is being done turns; elsewhere lines are plain.
type progress struct {
	w    io.Writer
	dir  datadir.Dir
	show bool
	tty  bool
	mu   sync.Mutex
	stop chan struct{} // closed to end the turning line; nil when there is none
	done sync.WaitGroup
}

// newProgress writes to w unless show is false.
func newProgress(w io.Writer, dir datadir.Dir, show bool) *progress {
	return &progress{w: w, dir: dir, show: show, tty: show && term.IsTerminal(w)}
}

// start prints the head line.
func (p *progress) start() {
	if !p.show {
		return
	}
	kept := "existing"
	if _, err := p.dir.State(); err != nil {
		kept = "new"
	}
	term.Printf(p.w, "berth %s · simulated GPU cluster · data in %s (%s)\n\n", buildinfo.Version, p.dir.Short(), kept)
	p.turn()
}

// turn shows that something goes on, after a short while, on a terminal.
func (p *progress) turn() {
	if !p.tty {
		return
	}
	stop := make(chan struct{})
	p.stop = stop
	p.done.Go(func() {
		began := time.Now()
		for frame := 0; ; frame++ {
			select {
			case <-stop:
				term.PrintBlock(p.w, term.ClearLine)
				return
			case <-time.After(150 * time.Millisecond):
				term.Printf(p.w, "%s %c starting  %.1fs", term.StartOfLine, []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")[frame%10], time.Since(began).Seconds())
			}
		}
	})
}

// still ends the turning line.
func (p *progress) still() {
	if p.stop != nil {
		close(p.stop)
		p.done.Wait()
		p.stop = nil
	}
}

// step prints a finished step.
func (p *progress) step(name, detail string, took time.Duration) {
	if !p.show {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.still()
	term.Printf(p.w, " ✓ %-14s %-66s %4.1fs\n", name, detail, took.Seconds())
	p.turn()
}

// ready prints the time to ready.
func (p *progress) ready(s datadir.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.still()
	if p.show {
		term.Printf(p.w, "\nReady in %.1fs.\n\n", s.Seconds)
	}
}

// stopping says that a signal was heard.
func (p *progress) stopping() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.still()
	if p.show {
		term.Printf(p.w, "\nStopping. The data in %s is kept; `berth down --purge` removes it.\n", p.dir.Short())
	}
}

// end ends the turning line when the run has failed.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.still()
}

// printAddresses tells where everything is.
func printAddresses(w io.Writer, dir datadir.Dir, s datadir.State) {
	term.Printf(w, "  API server   %s\n", s.Server)
	term.Printf(w, "  kubectl      export KUBECONFIG=%s\n", term.ShellPath(dir.Kubeconfig()))
	term.Printf(w, "  Data         %s\n", dir.Short())
	term.Printf(w, "  Logs         %s\n", datadir.Dir(dir.Logs()).Short())
	for _, rule := range s.HostProcesses {
		pattern, command, _ := strings.Cut(rule, "=")
		term.Printf(w, "  On this host %s runs %s\n", pattern, command)
	}
}

// printHints tells what to try next, and what ends it.
func printHints(w io.Writer, dir datadir.Dir, detached bool, hosted []string) {
	end := "Ctrl-C or"
	if detached {
		end = "It continues in the background:"
	}
	flag := ""
	if def, err := datadir.Default(); err == nil && def != dir {
		flag = " --dir " + term.ShellPath(string(dir))
	}
	caution := "Nothing real runs here: nodes, pods, and GPU readings are simulated."
	if len(hosted) > 0 {
		caution = "Nodes, GPU readings, and most pods are simulated. Containers of the images above run their command on this machine, as your user."
	}
	term.Printf(w, "\nTry\n"+
		"  %[3]s nodes%[1]s    show the GPUs of each node\n"+
		"  %[3]s gpus%[1]s     show every GPU and the pod that uses it\n"+
		"  %[4]s apply -f your-gpu-pod.yaml\n"+
		"  %[3]s sim break xid-79 NODE/0%[1]s    break a GPU\n\n"+
		"%[5]s\n"+
		"%[2]s `%[3]s down%[1]s` stops it and keeps the data.\n", flag, end, program("berth"), program("kubectl"), caution)
}

// program is how the reader can start a program: by its name where a shell finds
// it, else by its path beside this one.
func program(name string) string {
	if _, err := exec.LookPath(name); err == nil {
		return name
	}
	beside := filepath.Join(filepath.Dir(os.Args[0]), name)
	if _, err := os.Stat(beside); err != nil {
		return name
	}
	return beside
}
