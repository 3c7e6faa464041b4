package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// piped is a run whose log comes through a pipe, and the end to write to.
func piped(t *testing.T) (p *run, read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = read.Close(), write.Close() }) // a test may have closed one
	p = &run{out: newOutput(filepath.Join(t.TempDir(), "log"))}
	t.Cleanup(func() { p.out.close(time.Now()) })
	return p, read, write
}

// Whoever reads a log may be so late that the time for it is over before it
// begins: what a process printed before its end is in its log all the same.
func TestALogIsReadToItsEndHoweverLate(t *testing.T) {
	p, read, write := piped(t)
	if _, err := write.WriteString(strings.Repeat("a line of text\n", 100) + "the last"); err != nil {
		t.Fatal(err)
	}
	if err := read.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	p.read(read) // something still has the other end open
	p.out.close(time.Now())
	if lines := p.out.all(); len(lines) != 101 || lines[100].Text != "the last" {
		t.Errorf("%d lines are kept, want 101", len(lines))
	}
}

// What goes on writing, out of everybody's reach, does not keep a run from its end.
func TestAWriterThatIsNotFoundDoesNotHoldTheLog(t *testing.T) {
	p, read, write := piped(t)
	if err := read.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := write.WriteString("on and on\n"); err != nil {
				return
			}
		}
	}()
	p.read(read)
	if err := read.Close(); err != nil { // the writer gets EPIPE
		t.Fatal(err)
	}
	<-ended
}

func TestPortsAreThoseThatNoSystemGivesByChance(t *testing.T) {
	r := &Runner{ports: map[int]bool{}}
	given := map[int]bool{}
	for range 50 {
		port, err := r.port()
		if err != nil {
			t.Fatal(err)
		}
		if given[port] || port < 20000 || port >= 30000 {
			t.Fatalf("port %d is given; given already are %v", port, given)
		}
		given[port] = true
	}
	for port := range given {
		r.free(port)
	}
	if len(r.ports) > 0 {
		t.Errorf("ports %v are still promised", r.ports)
	}
}
