package why

import (
	"context"
	"io"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
)

// row is one workload that waits.
type row struct {
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

// all lists every workload that waits, with its cause in a line.
func (w *command) all(ctx context.Context) error {
	if err := w.output.Check(); err != nil {
		return err
	}
	n, err := w.Connect()
	if err != nil {
		return err
	}
	namespace := n.Namespace
	if w.Cluster.AllNamespaces {
		namespace = ""
	}
	show := func(out io.Writer) error {
		nodes, pods, err := n.Cluster.Holders(ctx, "")
		if apierrors.IsForbidden(err) && namespace != "" { // then the schedulers' words are all that is known
			nodes = nil
			pods, err = n.Cluster.PodsOf(ctx, namespace, func(p *v1.Pod) bool { return p.Spec.NodeName == "" })
		}
		if err != nil {
			return err
		}
		s := explain.Survey{Nodes: nodes, Pods: pods, Namespace: namespace, DRA: n.DRA(ctx), Private: w.audience == audienceUser, BadClaims: client.BadClaims(ctx, n.Cluster, namespace)}
		list, err := s.Waiting(w.Options.Time())
		if err != nil {
			return err
		}
		return w.printAll(out, list, namespace)
	}
	if w.watch {
		return n.Cluster.Watch(ctx, w.Options, show)
	}
	return show(w.Options.Out)
}

func (w *command) printAll(out io.Writer, list []explain.Waiting, namespace string) error {
	rows := make([]row, 0, len(list))
	for _, one := range list {
		o := one.Owner
		rows = append(rows, row{
			Namespace: o.Namespace, Kind: o.Kind, Name: o.Name, Pods: one.Pods, Code: one.Code, State: string(one.State), Cause: one.Cause,
			Since: one.Since.UTC().Format(time.RFC3339), since: one.Since,
		})
	}
	switch {
	case w.output.Object():
		return term.Write(out, &w.output, term.NewList("WhyList", rows))
	case w.output.Format == term.OutputName:
		for _, r := range rows {
			if _, err := term.PrintLine(out, kindOf(r.Kind)+"/"+r.Name); err != nil {
				return err
			}
		}
		return nil
	case len(rows) == 0:
		where := "in namespace " + namespace
		if namespace == "" {
			where = "in any namespace"
		}
		_, err := term.PrintLine(out, "nothing waits "+where)
		return err
	}
	t := &term.Table{Head: []string{"CODE", "WORKLOAD", "PODS", "FOR", "WHY"}, Gap: 2, Wrap: true, Spare: []string{"PODS"}}
	for _, r := range rows {
		name := kindOf(r.Kind) + "/" + r.Name
		if namespace == "" {
			name = r.Namespace + " " + name
		}
		code := string(r.Code)
		if code == "" {
			code = "-"
		}
		t.Add(code, name, strconv.Itoa(r.Pods), duration.HumanDuration(max(0, w.Options.Time().Sub(r.since))), r.Cause)
	}
	return t.Write(out, w.output.Screen(out), w.output.NoHeaders)
}
