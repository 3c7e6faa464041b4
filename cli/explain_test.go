package cli_test

import (
	"strings"
	"testing"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/test/golden"
)

// TestCausesPage compares docs/causes with the catalog; with -update it writes the page.
func TestCausesPage(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Causes\n\nWhy a workload is not ready, by the code that `berth why` prints with it. A code keeps its meaning. `berth explain CODE` prints one of them.\n\n" +
		"Generated from `core/explain/catalog.go`: `go test ./cli -run TestCausesPage -update` writes it.\n")
	for i := range reasons.Catalog {
		page.WriteString("\n#" + reasons.Catalog[i].Page())
	}
	golden.File(t, "../../docs/causes/README.md", page.String())
}

func TestExplain(t *testing.T) {
	s := newStage(t)
	if got := s.ok("explain", "c12"); !strings.HasPrefix(got, "BERTH-C12: CPU is short where GPUs would do\n\nPROOF") {
		t.Errorf("berth explain c12:\n%s", got)
	}
	if got := s.ok("explain"); strings.Count(got, "\n") != len(reasons.Catalog)+1 {
		t.Errorf("berth explain lists %d lines, want a head and %d:\n%s", strings.Count(got, "\n"), len(reasons.Catalog), got)
	}
	if _, stderr, code := s.run("berth", "explain", "Z99"); code != 2 || !strings.Contains(stderr, "there is no cause Z99; `berth explain` lists all") {
		t.Errorf("berth explain Z99: exit code %d, %s", code, stderr)
	}
}
