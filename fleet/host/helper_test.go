package host_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth.dev/berth/fleet/host"
)

// TestMain is also the program that the tests run in place of containers: with
// "helper" as its first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "helper" {
		os.Exit(helper(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// helper does one thing:
//
//	serve ADDRESS     answers HTTP there: /env with its environment, /fail with 503,
//	                  /open when it listens on all addresses, too
//	stubborn ADDRESS  the same, and does not end on SIGTERM
//	parent ADDRESS    the same, and leaves a child in a session of its own
//	print CODE TEXT   prints the text, without a newline at its end, and ends
//	guard DIR RULE    runs a Runner of its own in a folder with one process, prints its PID
//	sleep             does nothing, forever
func helper(what string, args []string) int {
	switch what {
	case "serve":
		return serve(args[0])
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		return serve(args[0])
	case "parent":
		child := exec.Command(os.Args[0], "helper", "sleep")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		child.Stdout = os.Stdout // it keeps the log open, too
		if err := child.Start(); err != nil {
			return 3
		}
		fmt.Println("child", child.Process.Pid)
		return serve(args[0])
	case "print":
		fmt.Print(args[1])
		code, _ := strconv.Atoi(args[0])
		return code
	case "guard":
		return guard(args[0], args[1])
	case "sleep":
		time.Sleep(time.Hour)
	}
	return 2
}

func serve(address string) int {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		return 4
	}
	fmt.Println("serving")
	http.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Join(os.Environ(), "\n")) })
	http.HandleFunc("/fail", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	http.HandleFunc("/open", func(w http.ResponseWriter, _ *http.Request) {
		world, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			fmt.Println(err)
			os.Exit(4)
		}
		go func() { _, _ = world.Accept() }() // keeps it from being collected
	})
	_ = http.Serve(l, nil)
	return 5
}

// guard is a Runner that is going to be killed.
func guard(dir, rule string) int {
	parsed, err := host.ParseRule(rule)
	if err != nil {
		return 2
	}
	r, news := host.Open(host.Options{Dir: dir}), make(chan struct{}, 100)
	k := host.Key{UID: "uid-1", Container: "c"}
	r.Start(host.Request{Key: k, Rule: parsed, Namespace: "ns", Pod: "p", Environ: func() []string { return nil }, Changed: func() { news <- struct{}{} }})
	for range news {
		s, _ := r.State(k)
		if s.Exit != nil {
			fmt.Fprintf(os.Stderr, "the process ended: %+v\n", s.Exit)
			return 1
		}
		if s.Ready {
			fmt.Println(s.PID)
			time.Sleep(time.Hour)
		}
	}
	return 1
}
