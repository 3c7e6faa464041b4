package test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
)

// endings is what has to be done when a signal ends this process: control planes run
// by themselves, and would outlive it.
var endings = struct {
	mu   sync.Mutex
	last int
	do   map[int]func()
}{do: map[int]func(){}}

// onInterrupt has f called when a signal ends this process, until forget is called.
func onInterrupt(f func()) (forget func()) {
	endings.mu.Lock()
	defer endings.mu.Unlock()
	endings.last++
	n := endings.last
	endings.do[n] = f
	return func() {
		endings.mu.Lock()
		defer endings.mu.Unlock()
		delete(endings.do, n)
	}
}

// purgeAtEnd ends the control plane of a folder and removes it, when the test ends.
func purgeAtEnd(t *testing.T, dir string) {
	purge := func() { _ = exec.Command(program("berth"), "down", "--purge", "--dir", dir).Run() }
	t.Cleanup(onInterrupt(purge))
	t.Cleanup(purge)
}

// followSignals ends this process at SIGINT or SIGTERM, when all endings are done.
func followSignals() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		endings.mu.Lock() // no test begins or ends anything from now on
		fmt.Fprintf(os.Stderr, "%v: ending what %d tests have started\n", s, len(endings.do))
		var all sync.WaitGroup
		for _, f := range endings.do {
			all.Go(f)
		}
		all.Wait()
		os.Exit(130)
	}()
}
