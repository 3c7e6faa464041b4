package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// GroupName is the name of the group that all rules are in, and Interval how often it is evaluated.
const (
	GroupName = "berth-gpus"
	Interval  = 30 * time.Second
)

// made says where the files come from.
const made = "# Made from metrics/rules: `go test ./metrics/rules -update` writes it.\n"

// Plain is the rules as a file of Prometheus.
func Plain() string { return made + groups("") }

// Object is the rules as a PrometheusRule, which Prometheus' operator reads. The label release is the one that kube-prometheus-stack asks for by default.
func Object() string {
	return made + "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n" +
		"metadata:\n  name: berth-gpus\n  namespace: monitoring\n  labels: {app.kubernetes.io/name: berth, release: kube-prometheus-stack}\nspec:\n" + groups("  ")
}

func groups(indent string) string {
	b := &strings.Builder{}
	line := func(format string, args ...any) { fmt.Fprintf(b, indent+format+"\n", args...) }
	line("groups:")
	line("- name: %s", GroupName)
	line("  interval: %s", model.Duration(Interval))
	line("  rules:")
	for _, r := range Records() {
		line("  - record: %s", r.Name)
		line("    expr: %s", strconv.Quote(r.Expr))
	}
	for _, r := range Rules() {
		line("  - alert: %s", r.Name)
		line("    expr: %s", strconv.Quote(r.Expr))
		if r.For > 0 {
			line("    for: %s", model.Duration(r.For))
		}
		line("    labels: {severity: %s}", r.Severity)
		line("    annotations:")
		line("      summary: %s", strconv.Quote(r.Summary))
		line("      runbook: %s", r.Page())
	}
	return b.String()
}

// PageText is the page of an alert.
func (r *Rule) PageText() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "# %s\n\n%s\n\n", r.Name, r.Means)
	every := "at once"
	if r.For > 0 {
		every = "after " + model.Duration(r.For).String()
	}
	fmt.Fprintf(b, "Severity %s; fires %s:\n\n```promql\n%s\n```\n\n", r.Severity, every, r.Expr)
	for _, part := range []struct{ title, text string }{{"Look at", r.Look}, {"Do", r.Do}, {"When it is a false alarm", r.Spurious}} {
		if part.text != "" {
			fmt.Fprintf(b, "## %s\n\n%s\n\n", part.title, part.text)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Index is the page that lists the alerts.
func Index() string {
	b := &strings.Builder{}
	b.WriteString("# Alerts\n\nThe rules are in [deploy/rules](../../deploy/rules), as a file of Prometheus and as a PrometheusRule; `berth up` evaluates them itself, and\n" +
		"`berth alerts` lists what fires. [Metrics](../metrics.md) lists the series that they are made of. Made from `metrics/rules`: `go test ./metrics/rules -update`\nwrites these pages.\n\n" +
		"| alert | severity | after | what it means |\n|---|---|---|---|\n")
	for _, r := range Rules() {
		first, _, _ := strings.Cut(r.Means, ". ")
		fmt.Fprintf(b, "| [%s](%s.md) | %s | %s | %s |\n", r.Name, r.Name, r.Severity, strings.Replace(model.Duration(r.For).String(), "0s", "at once", 1), strings.TrimSuffix(first, "."))
	}
	return b.String()
}
