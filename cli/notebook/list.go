package notebook

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/explain"
)

// notebookList is `berth notebook list`.
type notebookList struct {
	Command
	output   term.Output
	selector string
	watch    bool
}

func newNotebookList(o client.Options) *cobra.Command {
	l := &notebookList{Command: Command{Options: o}}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List notebooks with their state, GPUs, node or queue position, and idle time",
		Long: "List the notebooks of a namespace. PLACE is the node or the queue position. IDLE is the time since the last\n" +
			"activity, and when the notebook will be stopped for it.",
		Example: "  berth notebook list\n  berth notebook list -A -o wide\n  berth notebook list -w",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	l.AddFlags(cmd)
	l.output.AddFlags(cmd, term.Rows{Kind: "NotebookStateList", Row: notebookRow{}})
	f := cmd.Flags()
	f.Lookup("all-namespaces").Hidden = false
	f.Lookup("all-namespaces").Usage = "list notebooks of all namespaces"
	f.StringVarP(&l.selector, "selector", "l", "", "label selector for notebooks")
	f.BoolVarP(&l.watch, "watch", "w", false, "watch, and print again after each change")
	return cmd
}

func (l *notebookList) run(ctx context.Context) error {
	if err := l.output.Check(); err != nil {
		return err
	}
	n, err := l.Connect()
	if err != nil {
		return err
	}
	show := func(w io.Writer) error {
		list, err := n.List(ctx, l.Cluster.AllNamespaces, l.selector)
		if err != nil {
			return err
		}
		return l.print(w, list, n.Namespace)
	}
	if l.watch {
		return n.WatchOn(ctx, l.Options, n.opening(l.Cluster.AllNamespaces, l.selector), show)
	}
	return show(l.Options.Out)
}

// opening is the watch on what the list is made of.
func (n *Notebooks) opening(all bool, selector string) client.Openings {
	return func(ctx context.Context) map[string]func() (watch.Interface, error) {
		from := n.In(n.Namespace)
		if all {
			from = n.Client.Resource(kubeflow.Resource)
		}
		return map[string]func() (watch.Interface, error){
			"watch notebooks": func() (watch.Interface, error) {
				return from.Watch(ctx, metav1.ListOptions{LabelSelector: selector})
			},
		}
	}
}

func (l *notebookList) print(w io.Writer, list []kubeflow.Notebook, namespace string) error {
	rows := notebookRows(list)
	switch {
	case l.output.Object():
		return term.Write(w, &l.output, term.NewList("NotebookStateList", rows))
	case l.output.Format == term.OutputName:
		for _, r := range rows {
			term.PrintLine(w, "notebook.kubeflow.org/"+r.Name)
		}
		return nil
	case len(rows) == 0 && l.Cluster.AllNamespaces:
		term.Printf(l.Options.Err, "there are no notebooks; `%s notebook create NAME` creates one\n", l.Options.Name)
		return nil
	case len(rows) == 0:
		term.Printf(l.Options.Err, "namespace %s has no notebooks; -A shows those of all\n", namespace)
		return nil
	}
	wide := l.output.Format == term.OutputWide
	return notebookTable(rows, l.Options.Time(), l.Cluster.AllNamespaces, wide).Write(w, l.output.Screen(l.Options.Out), l.output.NoHeaders)
}

// notebookRow is a notebook in `berth notebook list -o json`.
type notebookRow struct {
	Namespace    string           `json:"namespace"`
	Name         string           `json:"name"`
	State        string           `json:"state"`   // the reason of condition Ready
	Message      string           `json:"message"` // why it is not ready; "" where it is
	GPUs         map[string]int64 `json:"gpus"`    // what it asks for, by resource
	Place        string           `json:"place"`   // node or place in line; "" is neither
	Profile      string           `json:"profile"`
	User         string           `json:"user"`
	Image        string           `json:"image"`
	LastActivity string           `json:"lastActivity,omitempty"` // RFC 3339
	StopsAt      string           `json:"stopsAt,omitempty"`      // RFC 3339
	StoppedFor   string           `json:"stoppedFor,omitempty"`
	Created      string           `json:"created"` // RFC 3339

	of *kubeflow.Notebook
}

func notebookRows(list []kubeflow.Notebook) []notebookRow {
	known := func(s string) string {
		if s == "-" {
			return ""
		}
		return s
	}
	var out []notebookRow
	for i := range list {
		nb := &list[i]
		spec := podSpec(nb)
		r := notebookRow{
			Namespace: nb.Namespace, Name: nb.Name, State: string(State(nb)), GPUs: Asked(nb), Place: known(Place(nb)),
			Profile: known(profileOf(nb)), User: known(userOf(nb)), Created: nb.CreationTimestamp.UTC().Format(time.RFC3339),
			LastActivity: nb.Annotations[api.AnnotationLastActivity], StopsAt: nb.Annotations[api.AnnotationNotebookStopsAt],
			StoppedFor: nb.Annotations[api.AnnotationNotebookStoppedFor], of: nb,
		}
		if State(nb) != explain.Ready {
			r.Message = Cause(nb)
		}
		if len(spec.Containers) > 0 {
			r.Image = spec.Containers[0].Image
		}
		out = append(out, r)
	}
	return out
}

// notebookTable has a line for each notebook.
func notebookTable(rows []notebookRow, now time.Time, namespaces, wide bool) *term.Table {
	t := &term.Table{Head: []string{"NAME", "STATE", "GPUS", "PLACE", "PROFILE", "IDLE", "AGE"}, Gap: 2, Spare: []string{"PROFILE", "AGE", "IDLE"}}
	if namespaces {
		t.Head = append([]string{"NAMESPACE"}, t.Head...)
	}
	if wide {
		t.Head = append(t.Head, "USER", "IMAGE", "WHY")
	}
	for _, r := range rows {
		cells := []string{
			r.Name, r.State, gpusText(r.of), shortPlace(r.of), profileOf(r.of), idleText(r.of, now),
			duration.HumanDuration(now.Sub(r.of.CreationTimestamp.Time)),
		}
		if namespaces {
			cells = append([]string{r.Namespace}, cells...)
		}
		if wide {
			why := r.Message
			if r.StoppedFor != "" && r.State == string(explain.Stopped) {
				why = r.StoppedFor
			}
			cells = append(cells, userOf(r.of), r.Image, why)
		}
		t.Add(cells...)
	}
	return t
}
