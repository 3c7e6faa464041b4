// Package berth_test checks which packages may import which.
package berth_test

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "berth.dev/berth/"

// layers is a statement of policy, not a description. A layer is a top folder.
// Its packages may import the standard library, the layers in may (and nothing
// else of this module), and other modules if ext is true.
// Change it in a commit of its own that says why.
var layers = map[string]struct {
	may []string
	ext bool
}{
	"core":         {may: []string{"core"}},
	"api":          {may: []string{"api"}, ext: true},
	"sim":          {may: []string{"sim", "core", "internal"}},
	"internal":     {may: []string{"internal", "core"}, ext: true}, // of core: the nearest word, for strictyaml
	"kube":         {may: []string{"kube", "api", "core", "internal"}, ext: true},
	"agent":        {may: []string{"agent", "kube", "api", "core", "internal"}, ext: true},
	"scheduler":    {may: []string{"scheduler", "kube", "api", "core", "internal"}, ext: true},
	"ledger":       {may: []string{"ledger", "core"}, ext: true},
	"fetch":        {may: []string{"fetch", "core", "internal"}, ext: true},
	"metrics":      {may: []string{"metrics", "core", "internal"}, ext: true}, // readings of any kind: it knows no Kubernetes
	"controller":   {may: []string{"controller", "ledger", "metrics", "kube", "api", "core", "internal"}, ext: true},
	"activator":    {may: []string{"activator", "kube", "api", "core", "internal"}, ext: true},
	"console":      {may: []string{"console", "kube", "api", "core", "internal"}, ext: true},
	"cli":          {may: []string{"cli", "fetch", "sim", "kube", "api", "core", "internal"}, ext: true},
	"fleet":        {may: []string{"fleet", "fetch", "agent", "kube", "api", "core", "internal"}, ext: true}, // of agent: fakegpu and config
	"controlplane": {may: []string{"controlplane", "activator", "fleet", "scheduler", "controller", "ledger", "metrics", "console", "agent", "kube", "api", "core", "internal"}, ext: true},
	"cmd":          {may: []string{"activator", "agent", "cli", "cmd", "console", "controller", "controlplane", "fetch", "fleet", "scheduler", "sim", "internal"}, ext: true}, // joins: hands up to cli as a func; cmd: the cgo part of berth-nvml, a module of its own
	"test":         {may: []string{"test", "internal"}, ext: true},                                                                                                            // scripts and benchmarks on the built programs
}

// rooms says the same of packages. Each folder of a layer stands in the list of its
// layer, and may import, of that list, only folders before it. So arrows between
// siblings run one way, and a new package gets a place by decision.
var rooms = [][]string{
	{"api", "api/kserve", "api/kubeflow", "api/trainer", "api/v1alpha1"},
	{
		"core/user", "core/gpu", "core/usage", "core/cost", "core/audit", "core/sharing", "core/health", "core/mig", "core/cluster", "core/placement", "core/queue", "core/forecast", "core/checkpoint", "core/quota", "core/gang", "core/preemption",
		"core/idle", "core/explain", "core/notebook", "core/training", "core/serving", "core/profile",
	},
	{"activator/gate", "activator/proxy", "activator"},
	{"sim/baseline", "sim"},
	{"ledger"},
	{"fetch"},
	{"metrics/store", "metrics/scrape", "metrics/send", "metrics/remote", "metrics/rules", "metrics/dashboards", "metrics/web"},
	{
		"internal/buildinfo", "internal/datadir", "internal/input", "internal/listen", "internal/pause", "internal/heap", "internal/rights",
		"internal/strictyaml", "internal/visible", "internal/finding", "internal/outbound",
	},
	{
		"kube/trainjob", "kube/training", "kube/request", "kube/serving", "kube/commit", "kube/idle", "kube/price", "kube/devices", "kube/queues", "kube/queueimport", "kube/record", "kube/runs", "kube/snapshot", "kube/view", "kube/exporter", "kube/explain", "kube/can", "kube/pool", "kube/doctor", "kube/lint",
		"kube/profile", "kube/spawn", "kube/kubetest",
	},
	{
		"agent/nvml", "agent/fakegpu", "agent/config", "agent/settings", "agent/access", "agent/pods", "agent/record", "agent/labels", "agent/mig",
		"agent/mps", "agent/mps/mpstest", "agent/exporter", "agent/deviceplugin", "agent/deviceplugin/kubelettest", "agent/allocation/notice",
		"agent/allocation/checkpoint", "agent/allocation/ledger", "agent/allocation/cdi", "agent/allocation", "agent/doctor", "agent",
	},
	{"scheduler/gpuonly", "scheduler/stuck", "scheduler/admission", "scheduler/queue", "scheduler/quota/metrics", "scheduler/quota/history", "scheduler/quota/objects", "scheduler/quota", "scheduler/quota/informer", "scheduler/runtimes", "scheduler/estimates", "scheduler/state", "scheduler/nodeindex", "scheduler/filters", "scheduler/resume", "scheduler/admit", "scheduler/fit", "scheduler/gangsize", "scheduler/gang/conditions", "scheduler/gang", "scheduler/evict", "scheduler/reserve", "scheduler/preempt/candidates", "scheduler/preempt", "scheduler/devices", "scheduler/server/report", "scheduler/server/outside", "scheduler/server/leader", "scheduler/server"},
	{"controller", "controller/crd", "controller/runtime", "controller/proxy", "controller/readings", "controller/meter", "controller/queue", "controller/idle", "controller/notebook", "controller/training", "controller/serving"},
	{
		"cli/term", "cli/client", "cli/process", "cli/cluster", "cli/nodes", "cli/top", "cli/sim", "cli/simulate/chart", "cli/simulate/simulation", "cli/simulate",
		"cli/notebook/gate", "cli/notebook", "cli/profiles", "cli/cost", "cli/budget", "cli/audit", "cli/report", "cli/query", "cli/alerts", "cli/queue", "cli/doctor", "cli/lint", "cli/causes", "cli/why", "cli/can", "cli/train", "cli/service", "cli/idle", "cli/fetch", "cli",
	},
	{"fleet/smi", "fleet/kubelet/shell", "fleet/kubelet", "fleet/host", "fleet/spec", "fleet/system", "fleet/balancer", "fleet"},
}

// doors lists, for what few may import, the packages that may. A name stands for the
// package and those below it.
var doors = []struct {
	to   string
	from []string
	why  string
}{
	{"k8s.io/kubernetes", []string{"controlplane", "scheduler/server", "test"}, "it is most of the build"},
	{"k8s.io/client-go", []string{
		"activator", "agent", "cli", "controller", "controlplane", "fleet", "internal/outbound", "internal/rights", "scheduler", "test",
		"kube/exporter", "kube/pool", "kube/view", // which read through an interface that they are given
		"kube/kubetest",
	}, "kube translates objects, and core and sim know none"},
	{"mvdan.cc/sh", []string{"fleet/kubelet/shell"}, "its interpreter and its users of the host stay out"},
	{"go.yaml.in/yaml", []string{"internal/strictyaml", "agent/config", "fleet", "kube/profile", "kube/lint", "test"}, "internal/strictyaml names file, line and field"},
	{module + "agent", []string{"agent", "cmd/berth-agent", "cmd/berth-nvml"}, "the node agent is a program of its own"},
	{module + "agent/config", []string{"agent", "fleet", "cmd/berth"}, "fleet reads the same files, and berth lint judges them"},
	{module + "agent/exporter", []string{"agent", "cmd/berth-agent", "fleet"}, "fleet prints the same metrics"},
	{module + "agent/fakegpu", []string{"agent", "cmd/berth-nvml", "fleet"}, "they have GPUs that do not exist"},
	{"github.com/prometheus/prometheus", []string{"metrics"}, "the engine of PromQL and its chunks are behind metrics"},
	{"github.com/prometheus/prometheus/tsdb", nil, "it brings the SDKs of three clouds"},
	{"github.com/prometheus/prometheus/tsdb/chunkenc", []string{"metrics/store"}, "only the store has chunks"},
	{"github.com/minio/minio-go", []string{"fetch"}, "only downloads speak S3"},
	{"golang.org/x/oauth2", []string{"fetch"}, "only downloads need Google's tokens"},
	{module + "fetch", []string{"fetch", "cli/fetch", "cmd/berth-fetch", "fleet"}, "downloads are a program of their own"},
	{module + "core", []string{"activator", "core", "fetch", "ledger", "metrics", "sim", "kube", "agent", "scheduler", "controller", "console", "cli", "fleet", "internal/strictyaml"}, "internal knows nothing of GPUs but the nearest of their names"},
	{module + "controlplane", []string{"controlplane", "cmd/berth"}, "it hosts the others"},
	{module + "fleet", []string{"fleet", "controlplane"}, "nothing else simulates nodes"},
	{module + "kube/kubetest", nil, "it is for tests"},
	{module + "agent/mps/mpstest", nil, "it is for tests"},
	{module + "agent/deviceplugin/kubelettest", nil, "it is for tests"},
	{module + "sim", []string{"sim", "cli/simulate"}, "nothing in a cluster simulates"},
}

// under reports whether a package is dir or below it.
func under(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// door returns the rule for an import: the one with the longest name.
func door(imp string) (to string, from []string, why string, ok bool) {
	for _, d := range doors {
		if under(imp, d.to) && len(d.to) > len(to) {
			to, from, why, ok = d.to, d.from, d.why, true
		}
	}
	return to, from, why, ok
}

// TestEveryPackageHasARoom holds rooms to the packages that there are.
func TestEveryPackageHasARoom(t *testing.T) {
	listed := map[string]bool{}
	layered := map[string]bool{}
	for _, list := range rooms {
		for _, dir := range list {
			if found, _ := filepath.Glob(dir + "/*.go"); len(found) == 0 {
				t.Errorf("rooms has %s, where there is no package", dir)
			}
			listed[dir] = true
			layer, _, _ := strings.Cut(dir, "/")
			layered[layer] = true
		}
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		dir := filepath.ToSlash(filepath.Dir(path))
		layer, _, _ := strings.Cut(dir, "/")
		if err == nil && layered[layer] && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !listed[dir] {
			listed[dir] = true
			t.Errorf("%s has no place in rooms in deps_test.go: put it after what it imports", dir)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// inOrder reports whether rooms allow the package in folder dir to import imp.
func inOrder(dir, imp string) bool {
	for _, list := range rooms {
		if from, to := slices.Index(list, dir), slices.Index(list, imp); from >= 0 && to > from {
			return false
		}
	}
	return true
}

// badNames are folder names that say nothing about what is inside.
var badNames = []string{"pkg", "util", "utils", "common", "helper", "helpers", "shared", "misc", "base", "types", "models"}

// coreStd is the part of the standard library that core may use: no I/O, no
// clock, no random numbers, no locks. (math/rand is passed in as a func.)
var coreStd = []string{
	"cmp", "container/heap", "errors", "fmt", "hash/fnv", "iter", "maps",
	"math", "math/big", "math/bits", "regexp", "slices", "strconv", "strings", "time",
}

// TestImports parses files itself: go test caches a result until a file that
// the test opened changes, and would not notice one that only "go list" read.
func TestImports(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "." && (path == "bin" || strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir // not ours, and it may change meanwhile
		}
		if err == nil && d.IsDir() && slices.Contains(badNames, d.Name()) {
			t.Errorf("%s: name the folder after what is in it", path)
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		layer, _, ok := strings.Cut(filepath.ToSlash(path), "/")
		if !ok {
			return nil
		}
		rule, ok := layers[layer]
		if !ok {
			t.Errorf("%s: folder %q has no rule in layers", path, layer)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			domain, _, _ := strings.Cut(imp, "/")
			switch {
			case strings.HasPrefix(imp, module):
				to, _, _ := strings.Cut(strings.TrimPrefix(imp, module), "/")
				ok = slices.Contains(rule.may, to)
				if !inOrder(filepath.ToSlash(filepath.Dir(path)), strings.TrimPrefix(imp, module)) {
					t.Errorf("%s imports %s, which comes after it in rooms", path, imp)
				}
			case strings.Contains(domain, "."):
				ok = rule.ext
			default:
				ok = layer != "core" || slices.Contains(coreStd, imp)
			}
			if !ok {
				t.Errorf("%s imports %s, which layer %s may not", path, imp, layer)
			}
			dir := filepath.ToSlash(filepath.Dir(path))
			if to, from, why, ok := door(imp); ok && !slices.ContainsFunc(from, func(name string) bool { return under(dir, name) }) {
				t.Errorf("%s imports %s, and only %q may import %s: %s", path, imp, from, to, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFoldersOfTheSchedulerAreReadAtOnce has each folder of scheduler/ below 1,500 lines without tests: see
// docs/decisions/2026-11-24-rooms-of-the-scheduler.md.
func TestFoldersOfTheSchedulerAreReadAtOnce(t *testing.T) {
	lines := map[string]int{}
	err := filepath.WalkDir("scheduler", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		lines[filepath.Dir(path)] += bytes.Count(text, []byte("\n"))
		return err
	})
	if err != nil || len(lines) == 0 {
		t.Fatalf("%d folders, %v", len(lines), err)
	}
	for dir, n := range lines {
		if n >= 1500 {
			t.Errorf("%s has %d lines; find its second noun", dir, n)
		}
	}
}
