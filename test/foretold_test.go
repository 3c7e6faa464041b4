package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
)

// foretold SCRIPT...: each manifest that these scripts have is judged by `berth can` and `berth lint`, then applied, and what was
// said must be what happens; then it is deleted. One that is in several scripts is judged once.
func foretold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: foretold SCRIPT...")
	}
	seen, count := map[string]bool{}, 0
	for _, pattern := range args {
		scripts, err := filepath.Glob(filepath.Join(ts.Getenv("SCRIPTS"), pattern+".txtar"))
		ts.Check(err)
		for _, script := range scripts {
			archive, err := txtar.ParseFile(script)
			ts.Check(err)
			for _, f := range archive.Files {
				text := string(f.Data)
				if filepath.Ext(f.Name) != ".yaml" || !strings.Contains(text, "kind: ") || !strings.Contains(text, "apiVersion: ") || seen[text] {
					continue
				}
				seen[text] = true
				p := &prediction{ts: ts, title: strings.TrimSuffix(filepath.Base(script), ".txtar") + " " + f.Name, file: ts.MkAbs("foretold.yaml")}
				ts.Check(os.WriteFile(p.file, f.Data, 0o600))
				p.check()
				count++
			}
		}
	}
	ts.Logf("%d manifests", count)
	if count == 0 {
		ts.Fatalf("no manifest is in these scripts")
	}
}

// prediction is what is said of one manifest.
type prediction struct {
	ts          *testscript.TestScript
	title, file string
	answers     []answered
}

// answered is an answer of `berth can`.
type answered struct {
	Kind, Namespace, Name, State, Code, Cause string
	With                                      []string
	Pods, Starts                              int
	Never, Preempts                           bool
}

// asks runs a command that prints JSON, whatever it exits with.
func (p *prediction) asks(into any, args ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), oneTry)
	defer cancel()
	cmd := command(ctx, p.ts, args)
	out, err := cmd.Output()
	if json.Unmarshal(out, into) != nil {
		p.ts.Fatalf("%s: %s: %v\n%s", p.title, strings.Join(args, " "), err, out)
	}
}

func (p *prediction) check() {
	var said struct{ Items []answered }
	p.asks(&said, "berth", "can", "-f", p.file, "-o", "json")
	p.answers = said.Items
	p.agrees()
	out, _ := run(p.ts, []string{"kubectl", "apply", "-f", p.file})
	for i := range p.answers {
		p.comes(&p.answers[i], string(out))
	}
	_, _ = run(p.ts, []string{"kubectl", "delete", "-f", p.file, "--ignore-not-found", "--now"})
	for end := time.Now().Add(patience); ; {
		q := ask(p.ts)
		var pods struct{ Items []json.RawMessage }
		if p.asks(&pods, "kubectl", "get", "pods", "-o", "json"); len(pods.Items) == 0 {
			return
		}
		if time.Now().After(end) {
			p.ts.Fatalf("%s: its pods are still there %v after it was deleted", p.title, patience)
		}
		q.pause()
	}
}

// agrees checks that `berth lint` fails no object for what Kubernetes refuses that `berth can` lets start.
func (p *prediction) agrees() {
	var found struct {
		Items []struct{ Name, Status, Object, Seen string }
	}
	p.asks(&found, "berth", "lint", "-f", p.file, "-o", "json")
	for _, f := range found.Items {
		if f.Status != "fail" || !slices.Contains([]string{"requests-differ", "unknown-field", "gpu-request", "whole-gpus", "training-job", "autoscaler-zero"}, f.Name) {
			continue
		}
		for _, a := range p.answers {
			if f.Object == a.Kind+" "+a.Name && a.State != "refused" && !a.Never {
				p.ts.Fatalf("%s: lint says of %s that %s, and can says that it %s", p.title, f.Object, f.Seen, a.State)
			}
		}
	}
}

// comes waits until what was said of an object is what is. applied is what kubectl said.
func (p *prediction) comes(a *answered, applied string) {
	for end := time.Now().Add(patience); ; {
		q := ask(p.ts)
		wrong := p.differs(a)
		if wrong == "" {
			return
		}
		if time.Now().After(end) {
			p.ts.Fatalf("%s: can said of %s %s: %s, %d of %d pods start, %s %s; but %s\n%s", p.title, a.Kind, a.Name, a.State, a.Starts, a.Pods, a.Code, a.Cause, wrong, applied)
		}
		q.pause()
	}
}

// differs says in what the cluster is not as was said of an object; "" is that it is.
func (p *prediction) differs(a *answered) string {
	namespace := a.Namespace
	if namespace == "" {
		namespace = "default"
	}
	_, err := run(p.ts, []string{"kubectl", "get", a.Kind, a.Name, "-n", namespace})
	if there := err == nil; there == (a.State == "refused") {
		return fmt.Sprintf("the object is there: %t", there)
	}
	if a.State != "starts" && a.State != "waits" {
		return ""
	}
	var pods struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ NodeName string }
			Status   struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	p.asks(&pods, "kubectl", "get", "pods", "-n", namespace, "-o", "json")
	bound, tried := 0, 0
	for _, pod := range pods.Items {
		if name := pod.Metadata.Name; name != a.Name && !strings.HasPrefix(name, a.Name+"-") && !slices.Contains(a.With, name) {
			continue
		}
		switch {
		case pod.Spec.NodeName != "":
			bound++
		default:
			for _, c := range pod.Status.Conditions {
				if c.Type == "PodScheduled" && c.Status == "False" {
					tried++
				}
			}
		}
	}
	if bound != a.Starts {
		return fmt.Sprintf("%d pods have a node, and %d wait", bound, tried)
	}
	if a.State == "starts" {
		return ""
	}
	var why struct {
		Items []struct{ Code, Cause string }
	}
	out, err := run(p.ts, []string{"berth", "why", strings.ToLower(a.Kind) + "/" + a.Name, "-n", namespace, "-o", "json"})
	if at := strings.IndexByte(string(out), '{'); err != nil || at < 0 || json.Unmarshal(out[at:], &why) != nil || len(why.Items) != 1 {
		return fmt.Sprintf("berth why says %s", out)
	}
	if why.Items[0].Code != a.Code {
		return fmt.Sprintf("berth why says %s %s", why.Items[0].Code, why.Items[0].Cause)
	}
	return ""
}
