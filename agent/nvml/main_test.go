package nvml_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/agent/nvml"
)

// TestMain lets the test binary be the child, and the parent of one.
func TestMain(m *testing.M) {
	switch os.Getenv("BERTH_TEST_ROLE") {
	case "child":
		os.Exit(beChild())
	case "parent":
		os.Exit(beParent())
	case "garbage":
		fmt.Println("NVRM: this is not for a machine")
		select {}
	case "other protocol":
		fmt.Println(`{"hello":9}`)
		select {}
	case "ends at once":
		fmt.Fprintln(os.Stderr, "no reason at all")
		os.Exit(7)
	}
	code := m.Run()
	if left := left(); code == 0 && left != "" {
		fmt.Println("after all tests there is left: " + left)
		code = 1
	}
	os.Exit(code)
}

// left names goroutines of clients and processes of ours, which every test has
// to end.
func left() string {
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		return fmt.Sprintf("a process: wait4 = %d, %v", pid, err)
	}
	stacks := make([]byte, 1<<20)
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		all := string(stacks[:runtime.Stack(stacks, true)])
		if !strings.Contains(all, "nvml.(*Client)") && !strings.Contains(all, "nvml.(*child)") {
			return ""
		}
	}
	return "goroutines:\n" + string(stacks[:runtime.Stack(stacks, true)])
}

func beChild() int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	lib, err := fakegpu.Open(os.Getenv("BERTH_TEST_FILE"), fakegpu.Options{Node: "n1", State: os.Getenv("BERTH_TEST_STATE"), Log: log})
	if err == nil {
		err = nvml.Serve(context.Background(), os.Stdin, os.Stdout, lib, log)
	}
	if err != nil {
		log.Error(err.Error())
		return 1
	}
	return 0
}

// beParent runs a child, writes its process ID, and waits to be killed.
func beParent() int {
	c := nvml.Start(context.Background(), options("child", os.Getenv("BERTH_TEST_FILE")))
	<-c.Changed()
	fmt.Println(c.PID())
	select {}
}

// options make the test binary the child.
func options(role, file string) nvml.Options {
	return nvml.Options{
		Command: []string{os.Args[0]},
		Env:     append(os.Environ(), "BERTH_TEST_ROLE="+role, "BERTH_TEST_FILE="+file, "BERTH_TEST_STATE="+file+".state"),
		Timeout: time.Minute, Backoff: 10 * time.Millisecond,
	}
}

// node is a Client of a child with a file of fake GPUs.
type node struct {
	*nvml.Client
	t    testing.TB
	file string
	stop func() // ends the client and waits for it
}

// start runs a child on the GPUs of text, and ends it with the test.
func start(t testing.TB, text string, change ...func(*nvml.Options)) *node {
	t.Helper()
	n := &node{t: t, file: filepath.Join(t.TempDir(), "gpus.yaml")}
	n.edit(text)
	o := options("child", n.file)
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.Client = nvml.Start(ctx, o)
	n.stop = func() { cancel(); n.Wait() }
	t.Cleanup(n.stop)
	return n
}

// edit puts another file in the place of the file, as editors do.
func (n *node) edit(text string) {
	n.t.Helper()
	next := n.file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(next, n.file); err != nil {
		n.t.Fatal(err)
	}
}

// until takes snapshots at every change until one is as wanted.
func (n *node) until(what string, want func(nvml.Snapshot) bool) nvml.Snapshot {
	n.t.Helper()
	for {
		s, err := n.Snapshot(n.t.Context())
		if err == nil && want(s) {
			return s
		}
		select {
		case <-n.Changed():
		case <-time.After(2 * time.Minute):
			n.t.Fatalf("no snapshot with %s; the last: %+v, %v", what, s, err)
		}
	}
}
