package test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	reasons "berth.dev/berth/core/explain"
)

// madeCause is one cause that a script makes from its example.
type madeCause struct {
	ts   *testscript.TestScript
	code string
	ask  []string // arguments of berth why
	file string
	line map[string][]string // commands at the head of the example: first, then, undo
}

// exampleOf reads the example of a cause, and how to ask about it.
func exampleOf(ts *testscript.TestScript, code string) *madeCause {
	e, found := reasons.Find(code)
	if !found || e.Ask == "" {
		ts.Fatalf("%s has no example", code)
	}
	m := &madeCause{ts: ts, code: "BERTH-" + code, ask: strings.Fields(e.Ask), file: ts.MkAbs(code + ".yaml"), line: map[string][]string{}}
	example := must(ts, "berth", "explain", code, "--example")
	ts.Check(os.WriteFile(m.file, example, 0o600))
	var rest []string // what may be deleted: the nodes of the fleet stay
	for doc := range strings.SplitSeq(string(example), "---\n") {
		for line := range strings.Lines(doc) {
			if word, command, ok := strings.Cut(strings.TrimPrefix(line, "# "), ": "); ok && strings.HasPrefix(line, "# ") {
				m.line[word] = append(m.line[word], strings.TrimSpace(command))
			}
		}
		if !strings.Contains(doc, "kind: Node\n") {
			rest = append(rest, doc)
		}
	}
	ts.Check(os.WriteFile(m.file+".delete", []byte(strings.Join(rest, "---\n")), 0o600))
	return m
}

// must runs a command of a script and returns its standard output.
func must(ts *testscript.TestScript, args ...string) []byte {
	out, err := output(ts, args...)
	if err != nil {
		ts.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// output runs a command of a script and returns its standard output, or, if it does not
// end well, both streams.
func output(ts *testscript.TestScript, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := command(ctx, ts, args)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		return append(out.Bytes(), errs.Bytes()...), err
	}
	return out.Bytes(), nil
}

// make applies the example, with the commands before and after it.
func (m *madeCause) make() {
	m.shell("first")
	m.apply()
	if example, err := os.ReadFile(m.file); err == nil && bytes.Contains(example, []byte("kind: ResourceQuota\n")) {
		m.counted()
	}
	m.shell("then")
}

// apply applies the example. A pod that comes before the API server has seen its new PriorityClass is refused: then
// the pods that were made are deleted, and all is applied again.
func (m *madeCause) apply() {
	for end := time.Now().Add(patience); ; {
		out, err := output(m.ts, "kubectl", "apply", "-f", m.file)
		if err == nil {
			return
		}
		if !bytes.Contains(out, []byte("no PriorityClass with name")) || time.Now().After(end) {
			m.ts.Fatalf("kubectl apply -f %s: %v\n%s", m.file, err, out)
		}
		must(m.ts, "kubectl", "delete", "pods", "--all", "--now")
	}
}

// counted waits until the controller of quotas has counted, and deletes the pods that were
// made before: Kubernetes enforces a new quota only from then on.
func (m *madeCause) counted() {
	must(m.ts, "kubectl", "wait", "resourcequotas", "-A", "--all", "--for=jsonpath={.status.hard}", "--timeout=5m")
	must(m.ts, "kubectl", "delete", "pods", "-A", "--all", "--now")
}

func (m *madeCause) shell(word string) {
	for _, line := range m.line[word] {
		must(m.ts, "sh", "-c", line)
	}
}

// undo removes what the example has made, and waits until its pods are gone.
func (m *madeCause) undo() {
	m.shell("undo")
	_, _ = output(m.ts, "kubectl", "delete", "-f", m.file+".delete", "--ignore-not-found", "--now", "--wait=false")
	for end := time.Now().Add(patience); ; {
		q := ask(m.ts)
		pods, _ := output(m.ts, "kubectl", "get", "pods", "-o", "name")
		if len(bytes.TrimSpace(pods)) == 0 {
			return
		}
		for name := range strings.FieldsSeq(string(pods)) { // what a command has made, or a finalizer keeps
			_, _ = output(m.ts, "kubectl", "patch", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
			_, _ = output(m.ts, "kubectl", "delete", name, "--now", "--wait=false", "--ignore-not-found")
		}
		if time.Now().After(end) {
			m.ts.Fatalf("%s: it stays after its delete:\n%s", m.code, pods)
		}
		q.pause()
	}
}

// whyAnswer is what of `berth why -o json` the scripts read.
type whyAnswer struct {
	Code, State, Cause string
	Helps              []string
}

// until asks about the cause until the answer is as wanted, for a time at most; false is that it was not in time.
func (m *madeCause) until(most time.Duration, is func(whyAnswer) bool) (last whyAnswer, ok bool) {
	for end := time.Now().Add(most); time.Now().Before(end); {
		q := ask(m.ts)
		out, err := output(m.ts, append([]string{"berth", "why", "-o", "json"}, m.ask...)...)
		var list struct{ Items []whyAnswer }
		if err == nil && json.Unmarshal(out, &list) == nil && len(list.Items) == 1 {
			if last = list.Items[0]; is(last) {
				return last, true
			}
		}
		q.pause()
	}
	return last, false
}

// knownToWhy are causes that berth why reads from objects which the scheduler does not follow:
// StorageClasses and events of claims, pools, and when a node has come.
var knownToWhy = []string{"BERTH-C40", "BERTH-C41", "BERTH-C59", "BERTH-D01", "BERTH-D08"}

// condition is the sentence about nodes in the condition of the pod that is asked about; "" is none.
func (m *madeCause) condition() string {
	if len(m.ask) != 1 || strings.Contains(m.ask[0], "/") || slices.Contains(knownToWhy, m.code) {
		return ""
	}
	out := must(m.ts, "kubectl", "get", "pod", m.ask[0], "-o", `jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}`)
	said, _, _ := strings.Cut(string(out), ". preemption: ")
	if !strings.Contains(string(out), ". preemption: ") {
		return ""
	}
	return said
}

// causes FILE: make each of the causes whose codes are in the file by its example, and see
// that berth why names it, and that the scheduler says the same in the pod's condition.
func causes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: causes FILE")
	}
	wrong, codes := 0, strings.Fields(ts.ReadFile(args[0]))
	for _, code := range codes {
		m := exampleOf(ts, code)
		is := func(a whyAnswer) bool { return a.Code == m.code && strings.HasPrefix(a.Cause, m.condition()) }
		m.make()
		got, ok := m.until(oneTry, is)
		if !ok { // on a busy machine the scheduler may have placed the pod before it saw what keeps it off
			ts.Logf("%s is made once more: %s %s: %s", m.code, got.Code, got.State, got.Cause)
			m.undo()
			m.make()
			got, ok = m.until(patience, is)
		}
		if !ok {
			wrong++
			ts.Logf("%s has another code, or the condition of its pod another sentence: %s", m.code, m.condition())
		}
		ts.Logf("%s: %s %s: %s", m.code, got.Code, got.State, got.Cause)
		m.undo()
	}
	if wrong > 0 {
		ts.Fatalf("%d of %d causes have another code", wrong, len(codes))
	}
}

// helps CODE...: make each cause by its example, run the first commands that berth why
// suggests for it, each by itself, and see that the pod runs.
func helps(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: helps CODE...")
	}
	const most = 2 // commands of each cause
	wrong, ran := 0, 0
	for _, code := range args {
		m := exampleOf(ts, code)
		for i, commands := 0, 1; i < min(commands, most); i++ {
			m.make()
			got, _ := m.until(patience, func(a whyAnswer) bool { return a.Code == m.code && len(commandsOf(a)) > 0 })
			list := commandsOf(got)
			if commands = len(list); i >= commands {
				ts.Logf("%s: no command helps: %q", m.code, got)
				wrong++
				m.undo()
				break
			}
			out, err := output(ts, "sh", "-c", list[i])
			after, ok := m.until(patience, func(a whyAnswer) bool { return a.State == "Running" || a.State == "Ready" || a.State == "Succeeded" })
			if ran++; err != nil || !ok {
				wrong++
				ts.Logf("%s: after %s (%v)\n%sit is %s: %s", m.code, list[i], err, out, after.State, after.Cause)
			} else {
				ts.Logf("%s: %s after %s", m.code, after.State, list[i])
			}
			m.undo()
		}
	}
	if wrong > 0 {
		ts.Fatalf("%d of %d commands do not make the pod run", wrong, ran)
	}
}

// commandsOf are the commands among the helps of an answer.
func commandsOf(a whyAnswer) []string {
	var out []string
	for _, line := range a.Helps {
		if command, ok := strings.CutPrefix(line, "  "); ok {
			out = append(out, command)
		}
	}
	return out
}
