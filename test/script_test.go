// Package test runs scripts against the built programs, as a person would: a
// real control plane in a folder of its own, the real kubectl, no shortcuts.
package test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the expected output in scripts")

// The schedulers of `berth up`: the one on which every script runs, and the one
// on which walkthroughs run as well. BERTH_TEST_SCHEDULER=stock swaps them.
var usual, other = schedulers(os.Getenv("BERTH_TEST_SCHEDULER"))

func schedulers(asked string) (usual, other string) {
	if asked == "stock" {
		return "stock", "berth"
	}
	return "berth", "stock"
}

// walkthroughs are the parts of the documents that are about scheduling: what
// they show must hold whichever scheduler runs.
var walkthroughs = []string{
	"s001-3-deployment", "s001-3-pods", "s001-4-scheduling", "s001-5-time-slicing",
	"s004-3-priorities", "s004-4-affinity", "s004-5-taints", "s004-7-time-slicing",
}

// slow are the scripts that take longest, the longest last.
var slow = []string{
	"s001-9-pipeline", "s001-7-practices", "s000-8-quota", "notebook-trouble",
	"controller-process", "agent-process", "s001-1-resources", "notebook-jupyter", "notebook-upstream", "causes-nodes", "causes",
	"who-the-user-is", "scheduler-process", "helps", "s002-whole", "prometheus", "s001-6-monitoring", "activator-process", "can-seeds", "notebook-idle",
}

// scripts lists every script. Go starts the parallel subtests of a test from the last
// to the first, so those of slow come last: none of them is then left alone at the end.
func scripts(t *testing.T) []string {
	files, err := filepath.Glob(filepath.Join("script", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slow {
		if !slices.Contains(files, filepath.Join("script", name+".txtar")) {
			t.Errorf("slow lists %s: there is no such script", name)
		}
	}
	place := func(file string) int { return slices.Index(slow, strings.TrimSuffix(filepath.Base(file), ".txtar")) }
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	return files
}

// TestScripts runs every script under script/. One that starts a control plane
// says `up FLEET`; a gate lets few run at once, since each has a whole one, and more while the machine idles.
// All tests of this package go through it, so none waits for the last of another.
// TestChaos is a separate part in tools/test.sh, as its schedulers keep leases.
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, usual, testscript.Params{Files: scripts(t)})
}

// TestWalkthroughs runs those parts of documents on the other scheduler, too.
func TestWalkthroughs(t *testing.T) {
	t.Parallel()
	p := testscript.Params{}
	for _, name := range walkthroughs {
		p.Files = append(p.Files, filepath.Join("script", name+".txtar"))
	}
	runScripts(t, other, p)
}

// runScripts runs the scripts of p on a scheduler. Scripts can ask which it is:
// [berth] and [stock].
func runScripts(t *testing.T, scheduler string, p testscript.Params) {
	bin := filepath.Dir(program("berth"))
	for _, name := range []string{"berth", "kubectl", "jq"} {
		if _, err := os.Stat(program(name)); err != nil {
			t.Fatalf("%v: run `make build` first", err)
		}
	}
	fleets, err := filepath.Abs("fleets")
	if err != nil {
		t.Fatal(err)
	}
	traces, err := filepath.Abs("../sim/testdata")
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := filepath.Abs("../deploy")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../examples")
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("script")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Abs("../docs")
	if err != nil {
		t.Fatal(err)
	}
	p.UpdateScripts = *update
	p.Condition = func(name string) (bool, error) {
		if name != "berth" && name != "stock" {
			return false, fmt.Errorf("condition %q: it is berth or stock, the scheduler", name)
		}
		return name == scheduler, nil
	}
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
		e.Setenv("FLEETS", fleets)
		e.Setenv("TRACES", traces)
		e.Setenv("DEPLOY", deploy)
		e.Setenv("EXAMPLES", examples)
		e.Setenv("DOCS", docs)
		e.Setenv("SCRIPTS", here)
		e.Setenv("SCHEDULER", scheduler)
		e.Setenv("HOME", e.WorkDir)
		e.Setenv("XDG_DATA_HOME", filepath.Join(e.WorkDir, "share"))
		e.Setenv("NO_COLOR", "1")
		e.Setenv("GOGC", "300") // a control plane at rest collects its garbage sooner, to be small
		forget := onInterrupt(func() {
			downAll(t, bin, e.WorkDir)
			_ = os.RemoveAll(e.WorkDir)
		})
		leave := turns.enter()
		from := time.Now()
		e.Defer(func() {
			defer leave()
			traced(filepath.Base(e.WorkDir), "script", from, 0, 0, scheduler)
			forgetWrites(e.WorkDir)
			logScene(t, e, planesIn(e.WorkDir))
			downAll(t, bin, e.WorkDir)
			forget()
		})
		return nil
	}
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){
		"up": newTemplates(t).up, "eventually": eventually, "start": start, "killberth": killBerth, "causes": causes, "helps": helps, "kubectlsays": kubectlsays,
		"transcript": transcript, "foretold": foretold, "web": web, "day": day, "later": later, "boundalike": boundalike,
	}
	testscript.Run(t, p)
}

// program is the path of a built program: in ../bin, or in the folder that
// BERTH_TEST_BIN names.
func program(name string) string {
	path, err := filepath.Abs(filepath.Join(cmp.Or(os.Getenv("BERTH_TEST_BIN"), filepath.Join("..", "bin")), name))
	if err != nil {
		panic(err) // the working folder is gone
	}
	return path
}

// planesIn lists the state files of the control planes that a script has started.
func planesIn(work string) []string {
	states, _ := filepath.Glob(filepath.Join(work, "*", "state.json"))
	more, _ := filepath.Glob(filepath.Join(work, "share", "berth", "*", "state.json"))
	return append(states, more...)
}

// downAll ends what a script has started, whatever became of the script.
func downAll(t *testing.T, bin, work string) {
	for _, state := range planesIn(work) {
		tracedPlane(filepath.Base(work), state, time.Now())
		out, err := exec.Command(filepath.Join(bin, "berth"), "down", "--purge", "--dir", filepath.Dir(state)).CombinedOutput()
		if err != nil {
			t.Errorf("berth down: %v\n%s", err, out)
		}
	}
}

// up [-new] FLEET [FLAG...]: `berth up --detach` in the default folder, on the scheduler
// that the script runs on unless a flag says another, or the folder is there and
// has its own. It sets the variable KUBECONFIG to the folder's kubeconfig. The folder
// begins as a copy of a template, if there is one for its fleet, and without -new.
func (m *templates) up(ts *testscript.TestScript, neg bool, args []string) {
	fresh := len(args) > 0 && args[0] == "-new"
	if fresh {
		args = args[1:]
	}
	if neg || len(args) < 1 {
		ts.Fatalf("usage: up [-new] FLEET [FLAG...]")
	}
	line := append([]string{"up", "--detach", "-o", "json", "--fleet", args[0]}, args[1:]...)
	from := time.Now()
	if _, err := os.Stat(defaultState(ts)); err != nil {
		if !slices.Contains(args, "--scheduler") {
			line = append(line, "--scheduler", ts.Getenv("SCHEDULER"))
		}
		if !fresh {
			m.lay(ts, filepath.Dir(defaultState(ts)), args[0], line[6:])
		}
	}
	ts.Check(ts.Exec("berth", line...))
	traced(ts.Name(), "up", from, 0, 0, strings.Join(args, " "))
	var r struct{ Kubeconfig string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &r))
	ts.Setenv("KUBECONFIG", r.Kubeconfig)
}

// How long a script waits for what must come, and one try of a command may take.
// Both only end what hangs: no script passes or fails by them on a slow machine.
const (
	patience = 5 * time.Minute
	oneTry   = time.Minute
)

// eventually REGEXP COMMAND [ARG...]: run the command until its output (both
// streams) matches. With ! until it does not.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP COMMAND [ARG...]")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	var cpu time.Duration
	from, tries := time.Now(), 0
	for end := from.Add(patience); ; {
		q := ask(ts)
		out, took, err := timed(ts, oneTry, args[1:])
		cpu, tries = cpu+took, tries+1
		if re.Match(out) != neg {
			traced(ts.Name(), "eventually", from, cpu, tries, strings.Join(args, " "))
			ts.Logf("%s", out)
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s: after %v its output still %s %s (%v):\n%s", strings.Join(args[1:], " "), patience, map[bool]string{false: "does not match", true: "matches"}[neg], args[0], err, out)
		}
		switch {
		case took < nothing:
			time.Sleep(glance)
		case readsObjects(args[1:]):
			q.pauseFor(idle)
		default:
			q.pause()
		}
	}
}

// run runs a command with the script's environment and returns both streams.
func run(ts *testscript.TestScript, args []string) ([]byte, error) {
	out, _, err := timed(ts, patience, args)
	return out, err
}

// timed is run, for at most limit, and returns the CPU time of the command as well.
func timed(ts *testscript.TestScript, limit time.Duration, args []string) ([]byte, time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := command(ctx, ts, args)
	cmd.WaitDelay = 10 * time.Second // a child of a killed shell may hold the streams
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), used(cmd.ProcessState), err
}

// command is a command with the script's PATH, folder and environment.
func command(ctx context.Context, ts *testscript.TestScript, args []string) *exec.Cmd {
	name := args[0]
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, name); isProgram(p) {
			name = p
			break
		}
	}
	cmd := exec.CommandContext(ctx, name, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = os.Environ()
	for _, key := range []string{"PATH", "HOME", "KUBECONFIG", "XDG_DATA_HOME", "NO_COLOR", "GOGC", "WORK", "MODELS"} {
		cmd.Env = append(cmd.Env, key+"="+ts.Getenv(key))
	}
	return cmd
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// started is a command that goes on beside a script, and its output file.
type started struct {
	cmd *exec.Cmd
	out *os.File
}

// end kills the command and waits for it.
func (s started) end() {
	_ = errors.Join(s.cmd.Process.Kill(), s.cmd.Wait(), s.out.Close()) // it was killed, says Wait
}

// start FILE COMMAND [ARG...]: run a command beside the script, with both of its
// streams in FILE, until the script's end.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start FILE COMMAND [ARG...]")
	}
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	s := started{cmd: command(context.Background(), ts, args[1:]), out: f}
	s.cmd.Stdout, s.cmd.Stderr = f, f
	ts.Check(s.cmd.Start())
	forget := onInterrupt(func() { _ = s.cmd.Process.Kill() })
	from := time.Now()
	ts.Defer(func() {
		forget()
		s.end()
		traced(ts.Name(), "start", from, used(s.cmd.ProcessState), 0, strings.Join(args, " "))
	})
}

// web FOLDER: serve the files of a folder by HTTP on a loopback port, at the address in the variable MODELS, until the script's end.
func web(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: web FOLDER")
	}
	s := httptest.NewServer(http.FileServer(http.Dir(ts.MkAbs(args[0]))))
	ts.Defer(s.Close)
	ts.Setenv("MODELS", s.URL)
}

// day NAME AGO: set the variable NAME to the day of UTC of so many days ago.
func day(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: day NAME AGO")
	}
	ago, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Setenv(args[0], time.Now().UTC().AddDate(0, 0, -ago).Format(time.DateOnly))
}

// killBerth sends SIGKILL to the process that holds the default folder.
func killBerth(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: killberth")
	}
	tracedPlane(ts.Name(), defaultState(ts), time.Now())
	raw := ts.ReadFile("share/berth/default/state.json")
	var s struct{ PID int }
	ts.Check(json.Unmarshal([]byte(raw), &s))
	p, err := os.FindProcess(s.PID)
	ts.Check(err)
	ts.Check(p.Kill())
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if gone(s.PID) {
			return
		}
	}
	ts.Fatalf("process %d is still there %v after SIGKILL", s.PID, patience)
}

// gone reports whether a process has ended with all of its threads, and so let go of
// what it had. Whoever inherited it may not have looked yet.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err != nil || bytes.Contains(stat, []byte(") Z ")) && len(threads) < 2
}
