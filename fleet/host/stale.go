package host

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// markName is the variable of the environment that says whose a process is.
	markName = "BERTH_HOST_PROCESS"
	pidFile  = "pid.json"
	// staleGrace is how long a process of an earlier Runner may take to end.
	staleGrace = 3 * time.Second
)

// pidRecord says which process a run was: the number alone may have become
// another's.
type pidRecord struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // field 22 of /proc/PID/stat, in clock ticks since boot; 0 is unknown
}

// writePID notes the process of a run.
func writePID(path string, pid int) error {
	start, _ := startTime(pid)
	raw, err := json.Marshal(pidRecord{PID: pid, Start: start})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.WriteFile(path, raw, 0o600)
}

// endStale ends processes of earlier Runners of this folder: those that carry
// its mark, and those that a pid file names whose start time is the one noted.
func (r *Runner) endStale() {
	if _, err := os.Lstat(filepath.Join(r.o.Dir, "host")); err != nil {
		return // nothing ever ran here
	}
	files, _ := filepath.Glob(filepath.Join(r.o.Dir, "host", "*", "containers", "*", pidFile))
	find := func() []int {
		pids := marked(r.tag(), true)
		for _, path := range files {
			if pid, ok := recorded(path); ok && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	pids := find()
	if len(pids) > 0 {
		r.o.Log.Info("ended the processes of an earlier run", "pids", pids)
	}
	for end := time.Now().Add(staleGrace); len(pids) > 0; pids = find() {
		s := syscall.SIGTERM
		if time.Now().After(end) {
			s = syscall.SIGKILL
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, s) // it may have ended
		}
		if s == syscall.SIGKILL && time.Now().After(end.Add(staleGrace)) {
			r.o.Log.Warn("the processes of an earlier run do not exit", "pids", pids)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, path := range files {
		_ = os.Remove(path) // it is rewritten
	}
}

// recorded returns the process that a pid file names, if it is still that one.
func recorded(path string) (int, bool) {
	raw, err := os.ReadFile(path)
	var rec pidRecord
	if err != nil || json.Unmarshal(raw, &rec) != nil || rec.PID <= 1 || rec.Start == 0 {
		return 0, false
	}
	start, ok := startTime(rec.PID)
	return rec.PID, ok && start == rec.Start
}
