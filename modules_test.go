package berth_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// oldest is the oldest version of each module that parses what strangers send: those that were
// current on 2026-11-22. Kubernetes asks for older ones, so `go mod tidy` after an edit can
// bring them back.
var oldest = map[string]string{
	"golang.org/x/crypto":    "v0.58.0",
	"golang.org/x/net":       "v0.62.0",
	"google.golang.org/grpc": "v1.85.0",
}

func TestModulesThatParseNetworkInputAreCurrent(t *testing.T) {
	raw, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		for i := 0; i+1 < len(words); i++ {
			least, ok := oldest[words[i]]
			if !ok {
				continue
			}
			seen[words[i]] = true
			if slices.Compare(numbers(t, words[i+1]), numbers(t, least)) < 0 {
				t.Errorf("go.mod has %s %s; the oldest allowed is %s", words[i], words[i+1], least)
			}
		}
		if strings.Contains(line, "=>") {
			for name := range oldest {
				if strings.Contains(line, name+" ") {
					t.Errorf("go.mod replaces %s: %s", name, strings.TrimSpace(line))
				}
			}
		}
	}
	for name := range oldest {
		if !seen[name] {
			t.Errorf("go.mod has no %s; remove it from this test if nothing needs it", name)
		}
	}
}

// numbers are the parts of a version such as v1.85.0.
func numbers(t *testing.T, version string) []int {
	t.Helper()
	var out []int
	for part := range strings.SplitSeq(strings.TrimPrefix(version, "v"), ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			t.Fatalf("version %s: %v", version, err)
		}
		out = append(out, n)
	}
	return out
}
