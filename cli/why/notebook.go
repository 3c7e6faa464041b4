package why

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	reasons "berth.dev/berth/core/explain"
	timeline "berth.dev/berth/core/notebook"
	"berth.dev/berth/kube/explain"
)

const (
	mostEvents = 6 // the last events that are shown
	whyHolders = 10
)

// command is `berth notebook why` and `berth why`.
type command struct {
	notebook.Command
	output   term.Output
	watch    bool
	audience string // of helps: audienceUser, audienceAdmin, or "" for both
}

// NewNotebook makes `berth notebook why`.
func NewNotebook(o client.Options) *cobra.Command {
	w := &command{Command: notebook.Command{Options: o}}
	cmd := &cobra.Command{
		Use:   "why NAME",
		Short: "Explain the state of a notebook, how it got there, and what would help",
		Long: "Explain the state of a notebook: the cause, its steps with their times, its last events, and, if it waits for\n" +
			"GPUs, which pods use them, when capacity is expected (from known end times), and changes that would help,\n" +
			"each checked against the current cluster. If you cannot list nodes, or the pods of all namespaces, you do\n" +
			"not see which pods use the GPUs.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: w.CompleteNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return w.notebook(cmd.Context(), args[0]) },
	}
	w.AddFlags(cmd)
	w.output.AddFlags(cmd, term.Rows{Kind: "NotebookWhyList", Row: report{}})
	return cmd
}

// NewTraining makes `berth train why`, which explains the same as `berth why` for a job. named returns
// KIND/NAME for what the user wrote.
func NewTraining(o client.Options, named func(ctx context.Context, n *notebook.Notebooks, arg string) (string, error)) *cobra.Command {
	w := &command{Command: notebook.Command{Options: o}}
	cmd := &cobra.Command{
		Use:   "why NAME",
		Short: "Explain why a training job waits, and what would help",
		Long:  "Explain the state of a training job, as `berth why tfjob/NAME` does, and with pytorchjob and trainjob.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			n, err := w.Connect()
			if err != nil {
				return err
			}
			name, err := named(cmd.Context(), n, args[0])
			if err != nil {
				return err
			}
			return w.explain(cmd.Context(), n, name)
		},
	}
	w.AddFlags(cmd)
	w.output.AddFlags(cmd, term.Rows{Kind: "WhyList", Row: report{}})
	w.addAudience(cmd)
	return cmd
}

func (w *command) notebook(ctx context.Context, name string) error {
	if err := w.output.Check(); err != nil {
		return err
	}
	n, err := w.Connect()
	if err != nil {
		return err
	}
	r, err := reportOf(ctx, n, name)
	if err != nil {
		return err
	}
	return w.show(r, "NotebookWhyList", "notebook.kubeflow.org")
}

// show prints a report as was asked for: in a list of a kind, as the name of a
// resource, or for a person.
func (w *command) show(r *report, list, resource string) error {
	switch {
	case w.output.Object():
		return term.Write(w.Options.Out, &w.output, term.NewList(list, []report{*r}))
	case w.output.Format == term.OutputName:
		_, err := term.PrintLine(w.Options.Out, resource+"/"+r.Name)
		return err
	}
	return r.print(w.Options.Out, w.Options.Time())
}

// report is what is known of a notebook.
type report struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	State     string           `json:"state"`
	Since     string           `json:"since"`             // RFC 3339
	Place     string           `json:"place"`             // node or place in line; "" is neither
	Beside    int              `json:"beside,omitempty"`  // other pods of the same owner
	Warning   string           `json:"warning,omitempty"` // about the devices that it got
	Refused   string           `json:"refused,omitempty"` // why the API server took no more pods of the owner since
	GPUs      map[string]int64 `json:"gpus"`
	Code      reasons.Code     `json:"code,omitempty"`   // of the binding cause: `berth explain CODE` tells more
	Cause     string           `json:"cause"`            // "" where it is ready
	Others    []string         `json:"others,omitempty"` // causes beside the binding one
	Steps     []step           `json:"steps"`
	Events    []event          `json:"events"` // the last, oldest first
	// Obstacles say node by node why it fits nowhere now.
	Obstacles []reasons.Rejection `json:"obstacles"`
	Scattered string              `json:"scattered,omitempty"` // enough is free, and not on one node
	Overtaken string              `json:"overtaken,omitempty"` // which smaller pods came later and started first
	Queue     string              `json:"queue,omitempty"`     // the queue that it enters, and why not the one that it names
	Evicted   string              `json:"evicted,omitempty"`   // how often pods of its owner were evicted to return quota
	Holders   []holder            `json:"holders"`
	Helps     []string            `json:"helps"`
	// When is when there is room for it, nil where it does not wait for GPUs.
	When *when `json:"when,omitempty"`
	// Hidden says why holders and helps are not told; "" is that they are.
	Hidden string `json:"hidden,omitempty"`

	since   time.Time
	refused time.Time         // the last time
	start   *reasons.Estimate // that When tells
}

// judged notes what the judge of waits found.
func (r *report) judged(found *explain.Findings) {
	r.Code, r.Others, r.Scattered = cmp.Or(r.Code, found.Verdict.Code()), found.Verdict.Others(), found.Verdict.Scattered()
	if found.Verdict.Code() == reasons.CodeBudget {
		r.Code = reasons.CodeBudget
	}
}

// when is what is known of when a pod that waits for GPUs can start.
type when struct {
	Text        string `json:"text"`                  // with what the times rest on
	AtTheLatest string `json:"atTheLatest,omitempty"` // RFC 3339; "" is not known, or others are before it
	Likely      string `json:"likely,omitempty"`      // RFC 3339: in half of the cases; "" is not known
	NineOfTenBy string `json:"nineOfTenBy,omitempty"` // RFC 3339: in nine of ten cases
	Perhaps     string `json:"perhaps,omitempty"`     // RFC 3339; rests on what people do, or on what others before it take
}

// step is a step of the way to being ready.
type step struct {
	Step    string   `json:"step"`
	At      string   `json:"at,omitempty"`      // RFC 3339; "" was not reached, or not told
	Seconds *float64 `json:"seconds,omitempty"` // since the step before

	at time.Time
}

// event is an event of the notebook or its pod.
type event struct {
	At      string `json:"at"` // RFC 3339
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Count   int32  `json:"count"`

	at time.Time
}

// holder is who holds GPUs on a node that the notebook could use.
type holder struct {
	Node      string  `json:"node"`
	Kind      string  `json:"kind"`
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	User      string  `json:"user"`
	GPUs      float64 `json:"gpus"`
	Since     string  `json:"since"` // RFC 3339
	// IdleSeconds is for how long nothing has happened in a notebook; null is not known.
	IdleSeconds *float64 `json:"idleSeconds,omitempty"`

	since time.Time
}

// reportOf reads all that is known of a notebook.
func reportOf(ctx context.Context, n *notebook.Notebooks, name string) (*report, error) {
	nb, err := n.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	s := notebook.State(nb)
	r := &report{
		Namespace: nb.Namespace, Name: nb.Name, State: string(s), GPUs: notebook.Asked(nb), Events: []event{}, Obstacles: []reasons.Rejection{},
		Holders: []holder{}, Helps: []string{},
	}
	if p := notebook.Place(nb); p != "-" {
		r.Place = p
	}
	if s != reasons.Ready {
		r.Cause = cmp.Or(notebook.StoppedFor(nb), notebook.Cause(nb))
	}
	r.since = stateSince(nb)
	if !r.since.IsZero() {
		r.Since = r.since.UTC().Format(time.RFC3339)
	}
	pod, err := n.CoreV1().Pods(n.Namespace).Get(ctx, name+"-0", metav1.GetOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return nil, n.Refused("read pod "+n.Namespace+"/"+name+"-0", "get", err)
		}
		pod = nil
	}
	r.Steps = steps(nb, pod)
	if r.Events, err = notebookEvents(ctx, n, nb, pod); err != nil {
		return nil, err
	}
	if notebook.WaitsForGPUs(nb) {
		return r, whyWaits(ctx, n, nb, pod, r)
	}
	r.Code = codeOf(ctx, n, nb, pod)
	return r, nil
}

// stateSince is since when a notebook is in its state; zero is not known.
func stateSince(nb *kubeflow.Notebook) time.Time {
	if at, stopped := notebook.NoteTime(nb, api.AnnotationStopped); stopped {
		return at
	}
	if c := nb.Status.Condition(kubeflow.ConditionReady); c != nil && c.LastTransitionTime != nil {
		return c.LastTransitionTime.Time
	}
	return nb.CreationTimestamp.Time
}

// steps is the timeline of a notebook's pod.
func steps(nb *kubeflow.Notebook, pod *v1.Pod) []step {
	made, started := nb.CreationTimestamp.Time, time.Time{}
	if pod != nil && !pod.CreationTimestamp.IsZero() {
		made = pod.CreationTimestamp.Time
	}
	if running := nb.Status.ContainerState.Running; running != nil {
		started = running.StartedAt.Time
	}
	if notebook.State(nb) == reasons.Stopped {
		return []step{}
	}
	var conditions []reasons.Condition
	for _, c := range nb.Status.Conditions {
		out := reasons.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		if c.LastTransitionTime != nil {
			out.Since = c.LastTransitionTime.Time
		}
		conditions = append(conditions, out)
	}
	out := []step{}
	var before time.Time
	for _, m := range timeline.Timeline(made, conditions, started) {
		s := step{Step: string(m.Step), at: m.At}
		if !m.At.IsZero() {
			s.At = m.At.UTC().Format(time.RFC3339)
			if !before.IsZero() {
				took := max(0, m.At.Sub(before).Seconds())
				s.Seconds = &took
			}
			before = m.At
		}
		out = append(out, s)
	}
	return out
}

// notebookEvents are the last events of a notebook and its pod, oldest first. What was
// said again of the pod under the notebook's name, or is the cause, is told once.
func notebookEvents(ctx context.Context, n *notebook.Notebooks, nb *kubeflow.Notebook, pod *v1.Pod) ([]event, error) {
	objects := []v1.ObjectReference{{Name: nb.Name, Kind: kubeflow.Kind, UID: nb.UID}}
	if pod != nil {
		objects = append([]v1.ObjectReference{{Name: pod.Name, Kind: "Pod", UID: pod.UID}}, objects...)
	}
	list, err := newExplainer(n).eventsOf(ctx, objects)
	if err != nil {
		return nil, err
	}
	out := []event{}
	for i := range list {
		e := &list[i]
		again := pod != nil && strings.HasPrefix(e.Message, "Reissued from pod/") || e.Message == notebook.Cause(nb)
		if !again {
			out = append(out, eventOf(e))
		}
	}
	return lastEvents(out), nil
}
