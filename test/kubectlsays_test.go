package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	v1 "k8s.io/api/core/v1"
)

// kubectlWords has what kubectl prints of causes, a part "== CODE" for each; docs/why.md is
// made from it.
var kubectlWords = filepath.Join("..", "cli", "testdata", "kubectl-words.txt")

// random is what differs in names from run to run: the hash of a ReplicaSet, the end of a
// pod's name, and UIDs.
var random = regexp.MustCompile(`\b([a-z]\d\d)-[0-9a-z]{5,10}(-[0-9a-z]{5})?\b`)

// counted is the use of a quota that still counts a pod which was made before the quota and is gone.
var counted = regexp.MustCompile(`used: requests\.nvidia\.com/gpu=1\b`)

// kubectlsays FILE: make each of the causes whose codes are in the file by its example, and
// compare what kubectl prints of it with kubectlWords. With -update that is written.
func kubectlsays(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: kubectlsays FILE")
	}
	path, err := filepath.Abs(kubectlWords)
	ts.Check(err)
	var b strings.Builder
	for code := range strings.FieldsSeq(ts.ReadFile(args[0])) {
		m := exampleOf(ts, code)
		m.make()
		b.WriteString("== " + code + "\n" + m.kubectl() + "\n")
		m.undo()
	}
	if *update {
		ts.Check(os.WriteFile(path, []byte(b.String()), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	ts.Check(err)
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		ts.Fatalf("kubectl says something else (-want +got); go test -update writes it:\n%s", diff)
	}
}

// kubectl is what `kubectl get events` prints of the cause's pod or owner as a warning, or,
// without one, what the pod's status says.
func (m *madeCause) kubectl() string {
	name := strings.ToLower(m.code[len("BERTH-"):])
	for end := time.Now().Add(patience); time.Now().Before(end); {
		q := ask(m.ts)
		var events v1.EventList
		var pods v1.PodList
		namespace := []string{"-n", "default"}
		if i := slices.Index(m.ask, "-n"); i >= 0 {
			namespace = m.ask[i:]
		}
		m.read(&events, append([]string{"get", "events"}, namespace...))
		for i := range events.Items {
			e := &events.Items[i]
			of := e.InvolvedObject.Name
			if e.Type == v1.EventTypeWarning && (of == name || strings.HasPrefix(of, name+"-") && e.Reason == "FailedCreate") {
				return e.Reason + "  " + counted.ReplaceAllString(random.ReplaceAllString(e.Message, "$1-xxxxx"), "used: requests.nvidia.com/gpu=0")
			}
		}
		m.read(&pods, append([]string{"get", "pods"}, namespace...))
		for i := range pods.Items {
			if strings.HasPrefix(pods.Items[i].Name, name+"-") && strings.HasPrefix(m.ask[0], "deployment/") { // it was made before its quota was counted
				_, _ = output(m.ts, append([]string{"kubectl", "delete", "pod", pods.Items[i].Name, "--now", "--wait=false"}, namespace...)...)
			}
			for _, c := range pods.Items[i].Status.Conditions {
				if pods.Items[i].Name == name && c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonSchedulingGated {
					return c.Reason + "  " + c.Message
				}
			}
		}
		q.pause()
	}
	m.ts.Fatalf("%s: kubectl prints nothing of it", m.code)
	return ""
}

// read runs kubectl and reads what it prints as JSON.
func (m *madeCause) read(into any, args []string) {
	raw := must(m.ts, append(append([]string{"kubectl"}, args...), "-o", "json")...)
	m.ts.Check(json.Unmarshal(raw, into))
}
