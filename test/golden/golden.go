// Package golden compares what a test gets with files that a person has reviewed.
// Only tests import it.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the files in testdata") //nolint:gochecknoglobals // a flag of the test binary

// Updates reports whether the files are to be rewritten: the test was run with -update.
func Updates() bool { return *update }

// File compares got with the file testdata/name of the package under test, and
// fails t where they differ. With -update it writes the file instead.
func File(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test with -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// Part compares got with the part name of archive a, which was read from path, and
// fails t where they differ. With -update it writes the archive with got instead.
func Part(t testing.TB, path string, a *txtar.Archive, name, got string) {
	t.Helper()
	at := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	if at < 0 {
		t.Fatalf("%s has no part %s", path, name)
	}
	if *update {
		a.Files[at].Data = []byte(got)
		if err := os.WriteFile(path, txtar.Format(a), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(a.Files[at].Data), got); diff != "" {
		t.Errorf("%s: part %s differs (-want +got):\n%s", path, name, diff)
	}
}
