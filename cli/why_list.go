package cli

import (
	"context"
	"io"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
)

// whyRow is one workload that waits.
type whyRow struct {
	Namespace string       `json:"namespace"`
	Kind      string       `json:"kind"`
	Name      string       `json:"name"`
	Pods      int          `json:"pods"` // that wait
	Code      reasons.Code `json:"code,omitempty"`
	State     string       `json:"state"`
	Cause     string       `json:"cause"`
	Since     string       `json:"since"` // RFC 3339

	since time.Time
}

// whyAll lists every workload that waits, with its cause in a line.
func (w *whyCommand) whyAll(ctx context.Context) error {
	if err := w.output.check(); err != nil {
		return err
	}
	n, err := w.connect()
	if err != nil {
		return err
	}
	namespace := n.namespace
	if w.cluster.allNamespaces {
		namespace = ""
	}
	show := func(out io.Writer) error {
		nodes, pods, err := n.cluster.list(ctx, "")
		if err != nil {
			return err
		}
		s := explain.Survey{Nodes: nodes, Pods: pods, Namespace: namespace, BadClaims: n.cluster.badClaims(ctx, namespace)}
		list, err := s.Waiting(w.o.now())
		if err != nil {
			return err
		}
		return w.printAll(out, list, namespace)
	}
	if w.watch {
		return n.cluster.watch(ctx, w.o, show)
	}
	return show(w.o.Out)
}

func (w *whyCommand) printAll(out io.Writer, list []explain.Waiting, namespace string) error {
	rows := make([]whyRow, 0, len(list))
	for _, one := range list {
		o := one.Owner
		rows = append(rows, whyRow{
			Namespace: o.Namespace, Kind: o.Kind, Name: o.Name, Pods: one.Pods, Code: one.Code, State: string(one.State), Cause: one.Cause,
			Since: one.Since.UTC().Format(time.RFC3339), since: one.Since,
		})
	}
	switch {
	case w.output.object():
		return write(out, &w.output, newList("WhyList", rows))
	case w.output.format == outputName:
		for _, r := range rows {
			if _, err := printLine(out, kindOf(r.Kind)+"/"+r.Name); err != nil {
				return err
			}
		}
		return nil
	case len(rows) == 0:
		where := "in namespace " + namespace
		if namespace == "" {
			where = "in any namespace"
		}
		_, err := printLine(out, "nothing waits "+where)
		return err
	}
	t := &table{head: []string{"CODE", "WORKLOAD", "PODS", "FOR", "WHY"}, gap: 2}
	for _, r := range rows {
		name := kindOf(r.Kind) + "/" + r.Name
		if namespace == "" {
			name = r.Namespace + " " + name
		}
		code := string(r.Code)
		if code == "" {
			code = "-"
		}
		t.add(code, name, strconv.Itoa(r.Pods), duration.HumanDuration(max(0, w.o.now().Sub(r.since))), r.Cause)
	}
	return t.write(out, screenOf(out), w.output.noHeaders)
}
