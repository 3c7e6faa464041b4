package mps_test

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
	"testing"
	"time"
)

// The test binary is its own control daemon: with this variable it behaves as
// nvidia-cuda-mps-control does.
const fakeEnv = "BERTH_TEST_MPS_CONTROL"

func TestMain(m *testing.M) {
	switch os.Getenv(fakeEnv) {
	case "program":
		os.Exit(fakeProgram())
	case "daemon":
		os.Exit(fakeDaemon())
	}
	_ = os.Setenv(fakeEnv, "program") // of what the tests start
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// behaves gives what a test wants of the daemon: "", "no start", "hang",
// "refuse memory", "refuse threads" or "deaf".
func behaves() string {
	text, _ := os.ReadFile(filepath.Join(os.Getenv("CUDA_MPS_LOG_DIRECTORY"), "behave"))
	return string(text)
}

func socket() string { return filepath.Join(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"), "control") }

// fakeProgram is "nvidia-cuda-mps-control -d", or without it one that sends what
// comes by its stdin.
func fakeProgram() int {
	if len(os.Args) > 1 && os.Args[1] == "-d" {
		if behaves() == "no start" {
			_ = os.WriteFile(filepath.Join(os.Getenv("CUDA_MPS_LOG_DIRECTORY"), "control.log"), []byte("one\nNo CUDA devices found\n"), 0o600)
			return 1
		}
		ready, tell, err := os.Pipe()
		if err != nil {
			return 3
		}
		cmd := exec.Command(os.Args[0]) // outlives this process
		cmd.Env = append(os.Environ(), fakeEnv+"=daemon")
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
	c, err := net.Dial("unix", socket())
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

// fakeDaemon serves until quit, a signal, or a minute.
func fakeDaemon() int {
	time.AfterFunc(time.Minute, func() { os.Exit(9) })
	dir := os.Getenv("CUDA_MPS_PIPE_DIRECTORY")
	if c, err := net.Dial("unix", socket()); err == nil {
		_ = c.Close()
		return 1
	}
	_ = os.Remove(socket())
	l, err := net.Listen("unix", socket())
	if err != nil {
		return 2
	}
	_ = os.WriteFile(filepath.Join(dir, "nvidia-cuda-mps-control.pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	log, err := os.OpenFile(filepath.Join(os.Getenv("CUDA_MPS_LOG_DIRECTORY"), "commands"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
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
		if behave == "hang" {
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
