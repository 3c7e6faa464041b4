// Package mpstest is a stand-in for nvidia-cuda-mps-control, for tests: it speaks
// the daemon's protocol and writes down what it is told. It serves no GPU, and it
// says nothing of how NVIDIA's own holds clients to their limits.
package mpstest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Variable is the environment variable that makes a test binary the control
// program: with Program it behaves as nvidia-cuda-mps-control does. Main reads it.
const (
	Variable = "BERTH_TEST_MPS_CONTROL"
	Program  = "program"
	daemon   = "daemon"
)

// longest is when a daemon ends that was not stopped.
const longest = 30 * time.Minute

// Main is for TestMain: it plays the part that the environment asks for and gives
// the exit code. ok is false where it asks for none.
func Main() (code int, ok bool) {
	switch os.Getenv(Variable) {
	case Program:
		return program(), true
	case daemon:
		return serve(), true
	}
	return 0, false
}

// Commands is the file, in the daemon's folder for logs, that has a line for each
// start, with the GPUs, and for each command that is not a question.
const Commands = "commands"

// Behave is the file, in the same folder, that says how the daemon misbehaves: "no
// start", "hang", "hang once", "refuse memory", "refuse threads" or "deaf".
const Behave = "behave"

func behaves() string {
	text, _ := os.ReadFile(filepath.Join(os.Getenv("CUDA_MPS_LOG_DIRECTORY"), Behave))
	return string(text)
}

func socket() string { return filepath.Join(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"), "control") }

// program is "nvidia-cuda-mps-control -d", or without it one that sends what
// comes by its stdin.
func program() int {
	if len(os.Args) > 1 && os.Args[1] == "-d" {
		if behaves() == "no start" {
			_ = os.WriteFile(filepath.Join(os.Getenv("CUDA_MPS_LOG_DIRECTORY"), "control.log"), []byte("one\nNo CUDA devices found\n"), 0o600)
			return 1
		}
		ready, tell, err := os.Pipe()
		if err != nil {
			return 3
		}
		cmd := exec.Command(os.Args[0]) //nolint:noctx // outlives this process
		cmd.Env = append(os.Environ(), Variable+"="+daemon)
		cmd.ExtraFiles = []*os.File{tell}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return 4
		}
		_ = tell.Close()
		if n, _ := ready.Read(make([]byte, 1)); n == 0 {
			return 1 // an instance runs already
		}
		return 0
	}
	c, err := net.Dial("unix", socket()) //nolint:noctx // a unix socket: nothing to wait for
	if err != nil {
		fmt.Println("Cannot find MPS control daemon process")
		return 1
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	fmt.Fprintln(c, lines.Text())
	answer, err := io.ReadAll(c)
	fmt.Print(string(answer))
	if err != nil {
		return 1
	}
	return 0
}

// serve is the daemon: until quit, a signal, or the longest time.
func serve() int {
	time.AfterFunc(longest, func() { os.Exit(9) })
	dir := os.Getenv("CUDA_MPS_PIPE_DIRECTORY")
	if c, err := net.Dial("unix", socket()); err == nil { //nolint:noctx // as above
		_ = c.Close()
		return 1
	}
	_ = os.Remove(socket())
	l, err := net.Listen("unix", socket())
	if err != nil {
		return 2
	}
	_ = os.WriteFile(filepath.Join(dir, "nvidia-cuda-mps-control.pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	log, err := os.OpenFile(filepath.Join(os.Getenv("CUDA_MPS_LOG_DIRECTORY"), Commands), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 3
	}
	fmt.Fprintln(log, "start "+os.Getenv("CUDA_VISIBLE_DEVICES"))
	_, _ = os.NewFile(3, "ready").Write([]byte{1})
	percent := "100.0"
	for {
		c, err := l.Accept()
		if err != nil {
			return 4
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		words := strings.Fields(line)
		if len(words) == 0 {
			_ = c.Close()
			continue
		}
		behave := behaves()
		if behave == "hang once" {
			_ = os.WriteFile(filepath.Join(os.Getenv("CUDA_MPS_LOG_DIRECTORY"), Behave), nil, 0o600)
		}
		if strings.HasPrefix(behave, "hang") {
			continue // neither answered nor closed
		}
		if !strings.HasPrefix(words[0], "get") {
			fmt.Fprintln(log, strings.TrimSpace(line))
		}
		switch {
		case words[0] == "quit" && behave == "deaf":
			continue
		case words[0] == "quit":
			_ = os.Remove(filepath.Join(dir, "nvidia-cuda-mps-control.pid"))
			_ = c.Close()
			return 0
		case words[0] == "set_default_device_pinned_mem_limit" && behave == "refuse memory":
			fmt.Fprintln(c, "Failed to set memory limit: invalid device")
		case words[0] == "set_default_active_thread_percentage" && behave == "refuse threads":
			fmt.Fprintln(c, percent)
		case words[0] == "set_default_active_thread_percentage":
			percent = words[1] + ".0"
			fmt.Fprintln(c, percent)
		case words[0] == "get_default_active_thread_percentage":
			fmt.Fprintln(c, percent)
		}
		_ = c.Close()
	}
}
