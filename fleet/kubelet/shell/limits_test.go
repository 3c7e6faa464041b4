package shell_test

import (
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/fleet/kubelet/shell"
)

// Each script here would take the process of a naive shell down, or a processor
// forever. It ends by itself, within memory and time.
func TestAScriptCannotTakeTheProcessDown(t *testing.T) {
	const most = 256 << 20 // of live memory at any time
	deep := func(open, in, end string) string { return strings.Repeat(open, 5000) + in + strings.Repeat(end, 5000) }
	tests := []struct {
		name, script, stderr string // stderr is contained in what is printed
	}{
		{"a value that doubles", "X=a; while true; do X=$X$X; done", "argument list too long"},
		{"a value that doubles without a command", "X=a; for ((;;)); do X=$X$X; done", "argument list too long"},
		{"a value that is appended to", "X=0123456789; while true; do X+=$X; done", "argument list too long"},
		{"a value that doubles by arithmetic", "for ((;;)); do ((x+=x+1)); done", "stopped after"},
		{"a value used often in one word", "X=$(printf '%999d' 1); X=$X$X$X$X$X$X$X$X$X; echo " + strings.Repeat("$X", 4000), "argument list too long"},
		{"a value used often in one command", "X=$(printf '%999d' 1); X=$X$X$X$X$X$X$X$X$X; : " + strings.Repeat("$X ", 4000), "argument list too long"},
		{"many variables", "i=0; while true; do i=$((i+1)); export V$i=x; done", "argument list too long"},
		{"values under many names", "X=$(printf '%999d' 1); X=$X$X$X$X$X$X$X$X$X; for i in {1..1000}; do export \"V$i=$X\"; done", "argument list too long"},
		{"a loop without an end", "while :; do :; done", "stopped after"},
		{"a loop without a body", "for ((;;)); do ((1)); done", "stopped after"},
		{"loops in loops", "while :; do while :; do while false; do :; done; done; done", "stopped after"},
		{"output without an end", "while :; do printf '%999d' {1..1000}; done", "too much output"},
		{"output without an end into a value", "X=$(while :; do echo 0123456789; done)", "argument list too long"},
		{"output without an end into tail", "while :; do printf '%999d\\n' {1..1000}; done | tail -n 60000", "too long to keep"},
		{"a script that calls itself", `export X='sh -c "$X"'; sh -c "$X"`, "more than 16 deep"},
		{"a script that forks", `export X='sh -c "$X" | sh -c "$X"'; sh -c "$X"`, "at most 32 run at once"},
		{"a long pipeline", "sleep 1" + strings.Repeat(" | sleep 1", 45), "at most 32 run at once"},
		{"substitution in substitution", deep("$(", "date", ")"), "nested too deep"},
		{"subshell in subshell", deep("( ", "date", " )"), "nested too deep"},
		{"arithmetic in arithmetic", "echo $((" + deep("(", "1", ")") + "))", "nested too deep"},
		{"a fallback in a fallback", deep("${X:-", "1", "}"), "nested too deep"},
		{"a very long pipeline", "true" + strings.Repeat(" | true", 5000), "nested too deep"},
		{"a long list of alternatives", "false" + strings.Repeat(" || false", 5000), "nested too deep"},
		{"a wide conversion", "printf '%999999999d' 1", "too wide"},
		{"a precise conversion", "printf '%.999999999d' 1", "too wide"},
		{"many wide conversions", "printf '" + strings.Repeat("%999d", 10000) + "' 1", "too wide"},
		{"a long sequence in braces", "echo {1..999999999}", "brace expansion would exceed"},
		{"sequences in braces that multiply", "echo {1..999}{1..999}{1..999}", "brace expansion would exceed"},
		{"a long word times braces", "echo " + strings.Repeat("x", 50000) + "{1..16000}", "argument list too long"},
		{"a long value times braces", "X=$(printf '%999d' 1); echo \"$X\"{1..16000}", "argument list too long"},
		{"a division by zero", "echo $((1/0))", "division by zero"},
		{"an overflow", "echo $((-9223372036854775808 / -1)) $((1 << -1)) $((2 ** 63)); nope", "nope: command not found"},
		{"an exponent below zero", "echo $((2 ** -1))", "exponent"},
		{"a variable that names itself", "x=y; y=x; echo $((x)); nope", "nope: command not found"},
		{"a pattern on a long value", "X=$(printf '%999d' 1); X=$X$X$X$X$X$X$X$X$X; echo ${X%" + strings.Repeat("*a", 3000) + "}; nope", "argument list too long"},
		{"a pattern of names with many stars", "echo " + strings.Repeat("/*", 3000) + "; nope", "nope: command not found"},
		{"a pattern of bytes that are not text", `p=$(printf '\xff['); echo ${PATH%$p*} ${PATH#$p} /$p*; case a in $p) ;; esac; nope`, "nope: command not found"},
		{"a long line", "echo " + strings.Repeat("x", 1<<20), "at most 65536 are read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			peak := watchMemory(t)
			synctest.Test(t, func(t *testing.T) { // the pauses of a busy script take no time here
				var stderr tail
				code := shell.Run(t.Context(), machine(), []string{"sh", "-c", tt.script}, nil, io.Discard, &stderr)
				if code == 0 || !strings.Contains(string(stderr), tt.stderr) {
					t.Errorf("sh -c %.60q = %d, stderr ends with %q; want a code and %q", tt.script, code, stderr, tt.stderr)
				}
			})
			if peak := peak(); peak > most {
				t.Errorf("sh -c %.60q took %d MiB, want at most %d", tt.script, peak>>20, most>>20)
			}
		})
	}
}

// watchMemory samples the memory of this process until the func that it returns
// is called, which returns the most that was seen.
func watchMemory(t *testing.T) func() uint64 {
	t.Helper()
	runtime.GC()
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		var m runtime.MemStats
		peak := uint64(0)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc+m.StackInuse)
			select {
			case <-stop:
				done <- peak
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-done
	}
}

// tail keeps the end of what is written.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	*t = (*t)[max(0, len(*t)-4096):]
	return len(b), nil
}

func TestABusyScriptLeavesTheProcessorToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		shell.Run(t.Context(), machine(), []string{"sh", "-c", "for i in {1..1000}; do :; done"}, nil, io.Discard, io.Discard)
		if took := time.Since(start); took < 50*time.Millisecond || took > time.Second {
			t.Errorf("1000 rounds paused for %v in all, want between 50 ms and 1 s", took)
		}
	})
}

func TestNoCommandRunsForMoreThanADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		code := shell.Run(t.Context(), machine(), []string{"sleep", "infinity"}, nil, io.Discard, io.Discard)
		if took := time.Since(start); took != 24*time.Hour || code != 130 {
			t.Errorf("sleep infinity = %d after %v, want 130 after 24h", code, took)
		}
	})
}
