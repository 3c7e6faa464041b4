package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// plan is a plan of lines whose fields are given with "|" between them.
func plan(t *testing.T, lines ...string) []part {
	t.Helper()
	parts, err := parse(strings.NewReader(strings.ReplaceAll(strings.Join(lines, "\n"), "|", "\t")))
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func TestAPlanThatCannotBeReadIsRefused(t *testing.T) {
	for line, want := range map[string]string{
		"lane\tname":               "line 1",
		"lane\t20\tname\ttrue":     `nice is "20"`,
		"lane\tvery\tname\ttrue":   `nice is "very"`,
		"lane\t0\tname\t ":         "want LANE, NICE, NAME and COMMAND",
		"\nlane\t0\t\ttrue":        "line 2",
		"a\t0\tb\ttrue\n\t0\tc\td": "line 2",
	} {
		if _, err := parse(strings.NewReader(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", line, err, want)
		}
	}
}

// TestLanesRunBesideEachOther has two parts each of which waits for the other, and one
// in front and one behind that have to run alone.
func TestLanesRunBesideEachOther(t *testing.T) {
	dir := t.TempDir()
	meet := `touch %[1]s/%[2]s; for i in $(seq 500); do [ -e %[1]s/%[3]s ] && exit 0; sleep 0.02; done; exit 1`
	var out bytes.Buffer
	r := &runner{out: &out, grace: time.Minute}
	failed := r.run(t.Context(), plan(t,
		"alone|0|before|test ! -e "+dir+"/a && test ! -e "+dir+"/b",
		"one|0|first|"+fmt.Sprintf(meet, dir, "a", "b"),
		"one|0|second|test -e "+dir+"/a && touch "+dir+"/c",
		"two|5|beside|"+fmt.Sprintf(meet, dir, "b", "a"),
		"alone|0|behind|test -e "+dir+"/c",
	))
	if failed || len(r.results) != 5 || r.results[0].name != "before" || r.results[4].name != "behind" {
		t.Errorf("failed %v, results %v:\n%s", failed, r.results, &out)
	}
}

func TestEachPartIsPrintedAsOnePiece(t *testing.T) {
	var out bytes.Buffer
	r := &runner{out: &out, grace: time.Minute}
	slow := `for i in 1 2 3 4 5; do echo %[1]s; echo %[1]s >&2; sleep 0.02; done`
	if r.run(t.Context(), plan(t, "one|0|A|"+fmt.Sprintf(slow, "a"), "two|0|B|"+fmt.Sprintf(slow, "b"))) {
		t.Fatal(out.String())
	}
	for _, want := range []string{strings.Repeat("a\n", 10) + "== A: passed", strings.Repeat("b\n", 10) + "== B: passed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if got := r.table(); !regexp.MustCompile(`(?m)^ +0 +\d+  A$(.|\n)* 0 +all, on \d+ cores`).MatchString(got) {
		t.Errorf("the table is\n%s", got)
	}
}

// TestTheFirstFailureEndsAllOthers has a part that would take an hour, beside one
// that fails.
func TestTheFirstFailureEndsAllOthers(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	r := &runner{out: &out, grace: time.Minute}
	failed := r.run(t.Context(), plan(t,
		"long|0|an hour|echo never shown; touch "+dir+"/up; sleep 3600",
		"long|0|after it|touch "+dir+"/after",
		"short|0|fails|while [ ! -e "+dir+"/up ]; do sleep 0.02; done; echo why it failed; exit 3",
		"short|0|behind|touch "+dir+"/behind",
		"alone|0|last|touch "+dir+"/last",
	))
	if !failed {
		t.Error("no part failed")
	}
	if got := out.String(); !strings.Contains(got, "why it failed\n== fails: failed after 0 s") || strings.Contains(got, "never shown\n") {
		t.Errorf("the output is\n%s", got)
	}
	if got := r.table(); !rows(got, "failed +[0-9]+  fails", "stopped +[0-9]+  an hour") {
		t.Errorf("the table is\n%s", got)
	}
	for _, name := range []string{"after", "behind", "last"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("the part that makes %q has begun", name)
		}
	}
}

// TestOtherPartsRunOnIfAsked has a part that fails before another of its lane.
func TestOtherPartsRunOnIfAsked(t *testing.T) {
	var out bytes.Buffer
	r := &runner{out: &out, grace: time.Minute, keepGoing: true}
	failed := r.run(t.Context(), plan(t, "one|0|fails|exit 3", "one|0|behind|true", "two|0|beside|true"))
	if got := r.table(); !failed || !rows(got, "failed +[0-9]+  fails") || strings.Contains(got, "stopped") || len(r.results) != 3 {
		t.Errorf("failed %v:\n%s", failed, got)
	}
}

// TestTheTableSaysWhatFailed has a part that writes logs before and after it fails.
func TestTheTableSaysWhatFailed(t *testing.T) {
	r := &runner{out: new(bytes.Buffer), grace: time.Minute}
	r.run(t.Context(), plan(t, `one|0|fails|echo log; echo "    x_test.go:7: got 1, want 2"; echo "--- FAIL: TestX"; echo log; exit 1`))
	got := r.table()
	if !strings.Contains(got, "x_test.go:7: got 1, want 2\n") || !strings.Contains(got, "--- FAIL: TestX\n") || strings.Contains(got, "log") {
		t.Errorf("the table is\n%s", got)
	}
}

// TestASignalEndsWhatAPartHasStarted ends the context, as a signal does.
func TestASignalEndsWhatAPartHasStarted(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(dir, "up")); err == nil {
				stop()
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	r := &runner{out: new(bytes.Buffer), grace: time.Second}
	// What a shell starts in the background ignores SIGINT, and has to be killed.
	failed := r.run(ctx, plan(t, "one|0|waits|sleep 3600 & echo $! >"+dir+"/pid; mv "+dir+"/pid "+dir+"/up; wait; touch "+dir+"/went-on", "two|0|too|sleep 3600"))
	if failed || len(r.results) != 2 || r.results[0].state != "stopped" || r.results[1].state != "stopped" {
		t.Errorf("failed %v, results %v", failed, r.results)
	}
	if _, err := os.Stat(filepath.Join(dir, "went-on")); err == nil {
		t.Error("the part went on")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "up"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for range 500 { // whoever inherited it has to bury it
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d, which the part started, is still there", pid)
}

// rows reports whether a table has rows that these expressions match.
func rows(table string, want ...string) bool {
	return !slices.ContainsFunc(want, func(row string) bool { return !regexp.MustCompile(`(?m)^ +` + row + `$`).MatchString(table) })
}

// TestTheTableSaysHowMuchCPUAPartTook has a part that counts, in its own process.
func TestTheTableSaysHowMuchCPUAPartTook(t *testing.T) {
	r := &runner{out: new(bytes.Buffer), grace: time.Minute}
	r.run(t.Context(), plan(t, `one|0|counts|sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'`))
	if len(r.results) != 1 || r.results[0].cpu < 10*time.Millisecond {
		t.Errorf("results are %+v, want some CPU time", r.results)
	}
}
