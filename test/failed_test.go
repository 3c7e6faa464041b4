package test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// logScene writes to the log of a test what a script that has failed leaves behind: for each of its control planes the
// pods, the Queues, the last events, and the last warnings and errors. The folder is removed after it: this is all that is left of
// a failure that comes seldom.
func logScene(t *testing.T, e *testscript.Env, planes []string) {
	if failed, can := e.T().(interface{ Failed() bool }); !can || !failed.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), oneTry)
	defer cancel()
	for _, state := range planes {
		dir := filepath.Dir(state)
		for _, ask := range [][]string{
			{"get", "pods", "-A", "--field-selector", "metadata.namespace!=gpu-operator", "-o", `custom-columns=POD:.metadata.name,PHASE:.status.phase,NODE:.spec.nodeName,WHY:.status.conditions[?(@.type=="PodScheduled")].message`},
			{"get", "queues", "-o", "wide"},
			{"get", "events", "-A", "--field-selector", "metadata.namespace!=gpu-operator", "--sort-by", ".metadata.creationTimestamp", "-o", `custom-columns=AT:.metadata.creationTimestamp,LAST:.lastTimestamp,OF:.involvedObject.name,REASON:.reason,SAYS:.message`},
		} {
			kubectl := exec.CommandContext(ctx, program("kubectl"), append([]string{"--kubeconfig", filepath.Join(dir, "kubeconfig")}, ask...)...)
			out, err := kubectl.CombinedOutput()
			t.Logf("%s: %s (%v)\n%s", filepath.Base(e.WorkDir), strings.Join(ask[:2], " "), err, lastLines(string(out), 40, nil))
		}
		logs, _ := filepath.Glob(filepath.Join(dir, "log", "*"))
		for _, file := range logs {
			if raw, err := os.ReadFile(file); err == nil {
				t.Logf("%s: %s\n%s", filepath.Base(e.WorkDir), filepath.Base(file), lastLines(string(raw), 15, warns))
			}
		}
	}
}

// warns reports whether a line of a log is a warning or an error: those of klog begin with a letter. The connections to etcd that fail
// while it starts are left out.
func warns(line string) bool {
	if strings.Contains(line, "addrConn.createTransport") {
		return false
	}
	return strings.HasPrefix(line, "E") || strings.HasPrefix(line, "W") || strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR")
}

// lastLines returns the last lines of a text of which keep is true; nil keeps all. Long ones are cut.
func lastLines(text string, most int, keep func(string) bool) string {
	const width = 300
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(text), "\n"), func(line string) bool { return keep != nil && !keep(line) })
	lines = lines[max(0, len(lines)-most):]
	for i, line := range lines {
		lines[i] = line[:min(len(line), width)]
	}
	return strings.Join(lines, "\n")
}
