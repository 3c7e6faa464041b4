package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/serving"
	"berth.dev/berth/kube/request"
)

// show is `berth service show`.
type show struct {
	command
	output term.Output
}

func newShow(o client.Options) *cobra.Command {
	s := &show{command: command{options: o}}
	cmd := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a model service: URL, runtime, model, replicas, revisions, conditions",
		Long:              "Show what a service serves and how, what its model lacks, each replica with its node and GPUs, the\nrevisions to which `berth service rollback` can go back, and its conditions. While a canary answers, each of the two\nrevisions has its share of the requests, and what came of them in the last five minutes.",
		Example:           "  berth service show mnist\n  berth service show mnist -o json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args[0]) },
	}
	s.addFlags(cmd)
	s.output.AddFlags(cmd, term.Rows{Kind: "ServiceDetailList", Row: detail{}})
	return cmd
}

// detail is a service in `berth service show -o json`.
type detail struct {
	row
	Format     string             `json:"format,omitempty"`
	Model      string             `json:"model,omitempty"`
	Scale      string             `json:"scale"` // such as "0 to 3 replicas, by concurrency"
	Rollout    string             `json:"rollout"`
	Pods       []replica          `json:"pods"`
	Revisions  []revision         `json:"revisions"` // that are kept, the newest first
	Conditions []kserve.Condition `json:"conditions"`
}

// replica is one pod of a service.
type replica struct {
	Pod       string `json:"pod"`
	Component string `json:"component"` // predictor or transformer
	Node      string `json:"node"`      // "" is none yet
	GPUs      string `json:"gpus"`
	State     string `json:"state"` // Ready, Waiting, Starting, or Terminating
	Restarts  int32  `json:"restarts"`
	Revision  string `json:"revision"`
	Created   string `json:"created"`             // RFC 3339
	Start     string `json:"startedIn,omitempty"` // until it was ready for the first time, such as "queue 1s, pull 2s, download 8s, load 3s"
}

func replicaOf(p *corev1.Pod) replica {
	r := replica{Pod: p.Name, Component: cmp.Or(p.Labels[kserve.LabelComponent], kserve.ComponentPredictor), Node: p.Spec.NodeName, GPUs: request.GPUsText(p), State: "Starting", Revision: p.Annotations[api.AnnotationServingSpec], Created: p.CreationTimestamp.UTC().Format(time.RFC3339), Start: p.Annotations[api.AnnotationStartedIn]}
	switch {
	case p.DeletionTimestamp != nil:
		r.State = "Terminating"
	case answers(p):
		r.State = "Ready"
	case p.Spec.NodeName == "":
		r.State = "Waiting"
	}
	for i := range p.Status.ContainerStatuses {
		r.Restarts += p.Status.ContainerStatuses[i].RestartCount
	}
	return r
}

func (s *show) run(ctx context.Context, name string) error {
	if err := s.output.Check(); err != nil {
		return err
	}
	all, o, pods, err := s.seen(ctx, name)
	if err != nil {
		return err
	}
	d := &detail{row: o.rowOf(pods), Rollout: string(o.written.Service.Rollout), Conditions: o.Status.Conditions, Pods: []replica{}}
	if m := o.written.Service.Model; m != nil {
		d.Format, d.Model = m.Format, m.StorageURI
	}
	scale := &o.written.Service.Scale
	d.Scale = fmt.Sprintf("%s, by %s", term.Count(scale.Min, "replica"), scale.Metric)
	if scale.Max > scale.Min {
		d.Scale = fmt.Sprintf("%d to %s, by %s", scale.Min, term.Count(scale.Max, "replica"), scale.Metric)
	}
	for _, p := range d.row.pods {
		d.Pods = append(d.Pods, replicaOf(p))
	}
	kept, err := all.revisions(ctx, o, d.row.pods)
	if err != nil && !apierrors.IsForbidden(err) {
		return all.refused("list the revisions of "+o.at(), "list", err)
	}
	d.Revisions = kept.list(o.Status.Components[kserve.ComponentPredictor].Traffic)
	return s.print(d)
}

func (s *show) print(d *detail) error {
	w := s.options.Out
	switch {
	case s.output.Object():
		return term.Write(w, &s.output, term.NewList("ServiceDetailList", []detail{*d}))
	case s.output.Format == term.OutputName:
		_, err := term.PrintLine(w, "inferenceservice.serving.kserve.io/"+d.Name)
		return err
	}
	now, screen := s.options.Time(), s.output.Screen(w)
	term.PrintBlock(w, screen.Wrapped(fmt.Sprintf("%s/%s: %s, %d of %s ready", d.Namespace, d.Name, d.State, d.Answering, term.Count(d.Replicas, "replica"))))
	for _, line := range [][2]string{{"WHY", d.why()}, {"URL", d.URL}, {"MODEL", d.Model}, {"FORMAT", d.Format}, {"RUNTIME", d.Runtime}, {"SCALE", d.Scale}, {"ROLLOUT", d.Rollout}, {"STARTS", d.starts()}} {
		if line[1] != "" {
			term.PrintBlock(w, screen.Section(line[0], line[1]))
		}
	}
	if len(d.Pods) > 0 {
		t := &term.Table{Head: []string{"POD", "STATE", "NODE", "GPUS", "RESTARTS", "REVISION", "AGE"}, Gap: 2, Spare: []string{"REVISION", "RESTARTS", "AGE"}}
		for _, p := range d.Pods {
			t.Add(p.Pod, p.State, cmp.Or(p.Node, "-"), p.GPUs, fmt.Sprint(p.Restarts), short(p.Revision), age(now, p.Created))
		}
		term.PrintLine(w, "")
		if err := t.Write(w, screen, s.output.NoHeaders); err != nil {
			return err
		}
	}
	if err := d.printRevisions(w, screen, s.output.NoHeaders, now); err != nil || len(d.Conditions) == 0 {
		return err
	}
	t := &term.Table{Head: []string{"CONDITION", "STATUS", "FOR", "REASON"}, Gap: 2, Wrap: true}
	for _, c := range slices.Clone(d.Conditions) {
		t.Add(c.Type, string(c.Status), duration.HumanDuration(max(0, now.Sub(c.LastTransitionTime.Time))), cmp.Or(c.Reason, "-"))
	}
	term.PrintLine(w, "")
	return t.Write(w, screen, s.output.NoHeaders)
}

// starts says how long the newest replica took whose start is known; "" is that none is.
func (d *detail) starts() (text string) {
	newest := ""
	for i := range d.Pods {
		p := &d.Pods[i]
		if s, ok := serving.ParseStart(p.Start); ok && p.Created >= newest {
			newest, text = p.Created, fmt.Sprintf("in %s: %s (pod %s)", s.Total(), s, p.Pod)
		}
	}
	return text
}

func age(now time.Time, created string) string {
	at, _ := time.Parse(time.RFC3339, created)
	return duration.HumanDuration(max(0, now.Sub(at)))
}
