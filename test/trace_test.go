package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"berth.dev/berth/test/machine"
)

// trace is the file that BERTH_TEST_TRACE names, to which scripts append what their steps took: a line
// for each `up` and `eventually`, each command that ran beside a script, each process of a control plane,
// and each script, with its seconds, its CPU seconds, how often it was asked, the script, and what it was.
var trace struct {
	sync.Mutex
	file *os.File
}

// traced appends a step; without BERTH_TEST_TRACE it does nothing.
func traced(script, step string, from time.Time, cpu time.Duration, tries int, what string) {
	path := os.Getenv("BERTH_TEST_TRACE")
	if path == "" {
		return
	}
	trace.Lock()
	defer trace.Unlock()
	if trace.file == nil {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err) // who asks for a trace has one
		}
		trace.file = f
	}
	_, _ = fmt.Fprintf(trace.file, "%s\t%.2f\t%.2f\t%d\t%s\t%s\n", step, time.Since(from).Seconds(), cpu.Seconds(), tries, script, what)
}

// tracedPlane appends what the process that holds a data folder has used so far.
func tracedPlane(script, state string, from time.Time) {
	if os.Getenv("BERTH_TEST_TRACE") == "" {
		return
	}
	raw, err := os.ReadFile(state)
	if err != nil {
		return
	}
	var s struct{ PID int }
	if json.Unmarshal(raw, &s) == nil && s.PID > 0 {
		used, _ := machine.ProcessCPU(s.PID) // 0 of one that has ended
		traced(script, "plane", from, used, 0, state)
	}
}

// used is what a command that has ended has used of the CPU.
func used(p *os.ProcessState) time.Duration {
	if p == nil {
		return 0
	}
	return p.UserTime() + p.SystemTime()
}

// defaultState is the state.json of a script's default folder.
func defaultState(ts *testscript.TestScript) string {
	return filepath.Join(ts.Getenv("WORK"), "share", "berth", "default", "state.json")
}
