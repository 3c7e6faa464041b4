package test

import (
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// later ARG...: wait until what is created now is younger than every object that `kubectl get ARG...` lists, of which there is at least
// one. Times of objects are whole seconds, and of two pods of the same second the one whose UID comes first has its turn first: a script
// that counts on the order of pods must have them come in different seconds.
func later(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: later ARG... (of kubectl get)")
	}
	out := must(ts, slices.Concat([]string{"kubectl", "get"}, args, []string{"-o", `jsonpath={.metadata.creationTimestamp} {.items[*].metadata.creationTimestamp}`})...)
	made := strings.Fields(string(out))
	if len(made) == 0 {
		ts.Fatalf("kubectl get %s: no objects", strings.Join(args, " "))
	}
	for _, at := range made {
		created, err := time.Parse(time.RFC3339, at)
		ts.Check(err)
		time.Sleep(time.Until(created.Add(time.Second)))
	}
}
