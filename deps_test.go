// Package berth_test checks which packages may import which.
package berth_test

import (
	"go/parser"
	"go/token"
	"io/fs"
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
	"controller":   {may: []string{"controller", "kube", "api", "core", "internal"}, ext: true},
	"console":      {may: []string{"console", "kube", "api", "core", "internal"}, ext: true},
	"cli":          {may: []string{"cli", "sim", "kube", "api", "core", "internal"}, ext: true},
	"fleet":        {may: []string{"fleet", "agent", "kube", "api", "core", "internal"}, ext: true}, // of agent: fakegpu and config
	"controlplane": {may: []string{"controlplane", "fleet", "scheduler", "controller", "console", "agent", "kube", "api", "core", "internal"}, ext: true},
	"cmd":          {may: []string{"agent", "cli", "cmd", "console", "controller", "controlplane", "fleet", "scheduler", "sim", "internal"}, ext: true}, // joins: hands up to cli as a func; cmd: the cgo part of berth-nvml, a module of its own
	"test":         {may: []string{"test", "internal"}, ext: true},                                                                                      // scripts and benchmarks on the built programs
}

// rooms says the same of sibling packages: each may import, of those listed with it,
// only the ones before it.
var rooms = [][]string{
	{"agent/allocation/notice", "agent/allocation/checkpoint", "agent/allocation/ledger", "agent/allocation/cdi", "agent/allocation"},
	{"kube/request", "kube/commit", "kube/devices", "kube/snapshot", "kube/view", "kube/exporter", "kube/explain", "kube/pool", "kube/doctor", "kube/spawn"},
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
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
