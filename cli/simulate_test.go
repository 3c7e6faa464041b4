package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"berth.dev/berth/api"
)

const (
	cutNodes = "../sim/testdata/nodes.csv"
	cutPods  = "../sim/testdata/pods_default.csv"
)

var secondsOf = regexp.MustCompile(`"(cpu|tune)_seconds": [0-9.]+`)

func TestSimulateComparesPolicies(t *testing.T) {
	s := newStage(t)
	chart := filepath.Join(t.TempDir(), "out.svg")
	out := s.ok("simulate", "--nodes", cutNodes, "--pods", cutPods, "--seeds", "1-3", "--policy", "berth,fgd,first-fit", "--chart", chart)
	for _, want := range []string{
		"pods_default.csv: 408 pods on 60 nodes with 268 GPUs, protocol fgd, seeds 1-3", "POLICY     AT 100%  AT 130%  CPU",
		"\nberth ", "\nfgd ", "! first-fit fails more than fgd, in points: ", "* berth 9", "o fgd 9", "+ first-fit ",
		"GPU requested by the pods that have arrived",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	for line := range strings.SplitSeq(out, "\n") {
		if n := len([]rune(line)); n > 110 {
			t.Errorf("a line has %d columns: %s", n, line)
		}
	}
	if svg, err := os.ReadFile(chart); err != nil || !strings.HasPrefix(string(svg), "<svg ") {
		t.Errorf("%s is no SVG: %v", chart, err)
	}
}

func TestSimulateJSONIsTheSameForTheSameSeed(t *testing.T) {
	s := newStage(t)
	args := []string{"simulate", "--nodes", cutNodes, "--pods", cutPods, "--seeds", "2,1", "--policy", "random,berth", "-o", "json"}
	first := s.ok(args...)
	if again := s.ok(args...); secondsOf.ReplaceAllString(first, "") != secondsOf.ReplaceAllString(again, "") {
		t.Errorf("two runs differ:\n%s\n%s", first, again)
	}
	var got struct {
		Policies []struct {
			Name string
			Runs []struct{ Seed int }
		}
	}
	if err := json.Unmarshal([]byte(first), &got); err != nil {
		t.Fatal(err)
	}
	if p := got.Policies; len(p) != 2 || p[0].Name != "random" || len(p[0].Runs) != 2 || p[0].Runs[0].Seed != 2 {
		t.Errorf("policies and runs are not in the order of the command line: %+v", p)
	}
}

func TestSimulateChurnShowsWaits(t *testing.T) {
	out := newStage(t).ok("simulate", "--protocol", "churn", "--nodes", cutNodes, "--pods", cutPods, "--seeds", "1", "--load", "0.5,1.2")
	for _, want := range []string{"POLICY  LOAD  ALLOCATED", "berth   0.5 ", "fgd     1.2 ", "Mean wait of placed pods"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

func TestSimulateMIGShowsAcceptance(t *testing.T) {
	s := newStage(t)
	out := s.ok("simulate", "--protocol", "mig", "--seeds", "1", "--load", "1.3", "--policy", "berth,first-fit")
	for _, want := range []string{"104 A100", "MIX        POLICY     ACCEPTED AT 1.3  HELD AT 1.3", "uniform    berth ", "both ends  first-fit "} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if raw := s.ok("simulate", "--protocol", "mig", "--seeds", "1", "--load", "1.3", "--policy", "berth", "--recut", "never", "-o", "json"); !strings.Contains(raw, `"accepted": `) {
		t.Errorf("the JSON lacks acceptance:\n%s", raw)
	}
	if _, stderr, code := s.run("berth", "simulate", "--protocol", "mig", "--recut", "often"); code != 2 || !strings.Contains(stderr, "must be one of free, empty, never") {
		t.Errorf("--recut often: exit code %d\n%s", code, stderr)
	}
}

func TestSimulateWhatIf(t *testing.T) {
	_, stderr, code := newStage(t).run("berth", "simulate", "--nodes", cutNodes, "--pods", cutPods, "--seeds", "1", "-o", "json",
		"--add", "2xa100x8", "--cut", "a100=1g.5gb", "--share", "t4=4")
	for _, want := range []string{"added 2 nodes of 8 NVIDIA A100-SXM4-40GB, each with 96 cores", "partitioned 16 GPUs into 1g.5gb", "GPUs by 4 each; percentages count each share as a GPU"} {
		if code != 0 || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d; stderr lacks %q:\n%s", code, want, stderr)
		}
	}
}

func TestSimulateRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	noModel := file("model.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,1000,1000,1,T5\n")
	twice := file("twice.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,1000,1000,1,T4\nn,1000,1000,1,T4\n")
	noGPU := file("cpu.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,1000,1000,0,\n")
	column := file("column.csv", "name,cpu_milli,memory_mib,num_gpu\np,1,1,1\n")
	negative := file("negative.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,-5,1,1000\n")
	for _, tt := range []struct {
		name, args string
		code       int
		says       string
	}{
		{"a file without end", "--nodes /dev/zero --pods " + noGPU, 1, "/dev/zero is too large: more than 64 MiB"},
		{"nothing to simulate on", "", 2, "no nodes: set"},
		{"nothing that comes", "--nodes " + cutNodes, 2, "no pods: set"},
		{"a policy near another", "--policy brth", 2, `unknown policy "brth"; did you mean "berth"?`},
		{"a policy like no other", "--policy kubernetes-default", 2, "must be one of berth"},
		{"a policy twice", "--policy fgd,fgd", 2, "duplicate fgd"},
		{"no such protocol", "--protocol fdg", 2, "must be one of fgd, churn, queue, mig"},
		{"seeds that are none", "--seeds 1-x", 2, "use whole numbers, such as 42-51,60"},
		{"seeds backwards", "--seeds 5-3", 2, "ends before it begins"},
		{"a seed twice", "--seeds 1-3,2", 2, "duplicate 2"},
		{"too many seeds", "--seeds 1-99999999", 2, "more than 10000 seeds"},
		{"no load", "--load 0", 2, "greater than 0"},
		{"two loads without departures", "--load 1,2", 2, "accepts one value"},
		{"a chart that is no SVG", "--chart out.png", 2, "ends in .svg"},
		{"an unknown form of output", "-o yaml", 2, "must be json"},
		{"files and a cluster", "--from-cluster", 2, "set either --nodes or --from-cluster"},
		{"empty files", "--empty", 2, "requires --from-cluster"},
		{"files and mixes of its own", "--protocol mig", 2, "generates nodes and requests"},
		{"nodes added in no form", "--add four", 2, "NODESxMODELxGPUS"},
		{"a cut of what is not there", "--cut h100=1g.10gb", 2, "no node has"},
		{"a file that is not there", "--nodes gone.csv", 1, "gone.csv: no such file"},
		{"an unknown model", "--nodes " + noModel, 1, noModel + `:2:`},
		{"a node twice", "--nodes " + twice, 1, twice + ":3:1: node n is there twice"},
		{"no GPU at all", "--nodes " + noGPU, 1, "no node has a GPU"},
		{"a missing column", "--pods " + column, 1, column + `:1:1: no column "gpu_milli"`},
		{"a negative size", "--pods " + negative, 1, negative + ":2:5: memory_mib is -5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"berth", "simulate"}
			if tt.args != "" && !strings.HasPrefix(tt.args, "--nodes "+cutNodes) {
				args = append(args, "--nodes", cutNodes, "--pods", cutPods, "--seeds", "1")
			}
			stdout, stderr, code := newStage(t).run(append(args, strings.Fields(tt.args)...)...)
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.says) {
				t.Errorf("exit code %d, want %d; stdout %q, want none; stderr lacks %q:\n%s", code, tt.code, stdout, tt.says, stderr)
			}
		})
	}
}

func TestSimulateSaysWhatIsImpossible(t *testing.T) {
	pods := filepath.Join(t.TempDir(), "pods.csv")
	write(t, pods, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nbig,1000,1024,16,1000\nsmall,1000,1024,1,500\n")
	stdout, stderr, code := newStage(t).run("berth", "simulate", "--nodes", cutNodes, "--pods", pods, "--seeds", "1", "-o", "json")
	if want := "1 of 2 pods fit no node even when it is empty, such as big (1 cores, 1 GiB, 16 GPUs)"; code != 0 || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d; stderr lacks %q:\n%s", code, want, stderr)
	}
	if !strings.Contains(stdout, `"impossible": `) {
		t.Errorf("the JSON does not count the impossible:\n%s", stdout)
	}
}

func TestSimulateFromCluster(t *testing.T) {
	s := newStage(t, lab()...)
	stdout, stderr, code := s.run("berth", "simulate", "--from-cluster", "--seeds", "1-2")
	if code != 0 || !strings.Contains(stderr, "already placed: ") || !strings.Contains(stdout, "5 nodes with 14 GPUs") {
		t.Errorf("exit code %d, want what is placed and 14 GPUs:\n%s%s", code, stdout, stderr)
	}
	if _, stderr, code = s.run("berth", "simulate", "--from-cluster", "--share", "t4=2"); code != 2 || !strings.Contains(stderr, "add --empty") {
		t.Errorf("GPUs that pods hold are shared: exit code %d\n%s", code, stderr)
	}
	stdout, stderr, code = s.run("berth", "simulate", "--from-cluster", "--empty", "--share", "t4=2", "--seeds", "1")
	if code != 0 || strings.Contains(stderr, "placed already") {
		t.Errorf("exit code %d, want an empty cluster:\n%s%s", code, stdout, stderr)
	}
	bare := newStage(t, node("n", "Tesla T4", 2, "", api.ResourceGPU, 2))
	if _, stderr, code = bare.run("berth", "simulate", "--from-cluster"); code != 1 || !strings.Contains(stderr, "set --pods FILE.csv") {
		t.Errorf("a cluster without pods says what comes: exit code %d\n%s", code, stderr)
	}
}
