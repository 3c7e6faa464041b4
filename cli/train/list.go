package train

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/training"
	"berth.dev/berth/kube/request"
	objects "berth.dev/berth/kube/training"
)

// list is `berth train list`.
type list struct {
	command
	output   term.Output
	selector string
	watch    bool
}

func newList(o client.Options) *cobra.Command {
	l := &list{command: command{options: o}}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List training jobs with their state, replicas, GPUs, and why they wait",
		Long: "List the TFJobs, PyTorchJobs, and TrainJobs of a namespace. REPLICAS are those that run and those that the job has,\n" +
			"and GPUS those that all replicas request. The status of a TrainJob does not count pods: 0 or all run. PROGRESS is shown\n" +
			"if a program reports it, with the time that is left.",
		Example: "  berth train list\n  berth train list -A -o wide\n  berth train list -w",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	l.addFlags(cmd)
	l.output.AddFlags(cmd, term.Rows{Kind: "TrainingStateList", Row: row{}})
	f := cmd.Flags()
	f.Lookup("all-namespaces").Hidden = false
	f.Lookup("all-namespaces").Usage = "list jobs of all namespaces"
	f.StringVarP(&l.selector, "selector", "l", "", "label selector for jobs")
	f.BoolVarP(&l.watch, "watch", "w", false, "watch, and print again after each change")
	return cmd
}

func (l *list) run(ctx context.Context) error {
	if err := l.output.Check(); err != nil {
		return err
	}
	j, err := l.connect()
	if err != nil {
		return err
	}
	namespace := j.namespace
	if l.cluster.AllNamespaces {
		namespace = ""
	}
	show := func(w io.Writer) error {
		found, err := j.list(ctx, namespace, l.selector)
		if err != nil {
			return err
		}
		j.progress(ctx, namespace, found, l.options.Time())
		return l.print(w, found, namespace)
	}
	if l.watch {
		return j.WatchOn(ctx, l.options, j.openings(ctx, namespace, l.selector), show)
	}
	return show(l.options.Out)
}

// openings are the watches on the kinds of jobs that are served.
func (j *jobs) openings(ctx context.Context, namespace, selector string) client.Openings {
	return func(during context.Context) map[string]func() (watch.Interface, error) {
		out := map[string]func() (watch.Interface, error){}
		for _, kind := range kinds() {
			from := j.in(kind, namespace)
			if _, err := from.List(ctx, metav1.ListOptions{Limit: 1}); notebook.NoSuchKind(err) {
				continue
			}
			out["watch "+short(kind)+"s"] = func() (watch.Interface, error) {
				return from.Watch(during, metav1.ListOptions{LabelSelector: selector})
			}
		}
		return out
	}
}

func (l *list) print(w io.Writer, found []*job, namespace string) error {
	rows := make([]row, 0, len(found))
	for _, j := range found {
		rows = append(rows, j.row())
	}
	switch {
	case l.output.Object():
		return term.Write(w, &l.output, term.NewList("TrainingStateList", rows))
	case l.output.Format == term.OutputName:
		for _, j := range found {
			term.PrintLine(w, resourceName(j.Kind, j.Name))
		}
		return nil
	case len(rows) == 0 && namespace == "":
		term.Printf(l.options.Err, "there are no training jobs; `%s train create NAME` creates one\n", l.options.Name)
		return nil
	case len(rows) == 0:
		term.Printf(l.options.Err, "namespace %s has no training jobs; -A shows those of all\n", namespace)
		return nil
	}
	screen := l.output.Screen(l.options.Out)
	if l.output.Format == term.OutputWide {
		screen.Width = 0
	}
	t := table(found, l.options.Time(), namespace == "")
	below := !addWhy(t, found, screen.Width)
	if err := t.Write(w, screen, l.output.NoHeaders); err != nil || !below {
		return err
	}
	for _, j := range found {
		name := j.title()
		if namespace == "" {
			name = j.at()
		}
		if text := j.brief(); text != "" {
			term.Printf(w, "%s: %s\n", name, text)
		}
	}
	return nil
}

// resourceName is a job as kubectl prints names.
func resourceName(kind training.Kind, name string) string {
	return short(kind) + "." + objects.ResourceOf(string(kind)).Group + "/" + name
}

// row is a job in `berth train list -o json`.
type row struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Kind      string           `json:"kind"`
	State     string           `json:"state"`    // the type of the condition that matters most, Queued, Suspending, Terminating, or Invalid
	Replicas  int              `json:"replicas"` // that the job has
	Running   int              `json:"running"`  // of them
	GPUs      map[string]int64 `json:"gpus"`     // that all replicas request, by resource
	Message   string           `json:"message"`  // why it waits or has failed; "" is neither
	Created   string           `json:"created"`  // RFC 3339
	Started   string           `json:"started,omitempty"`
	Ended     string           `json:"ended,omitempty"`
	progress
}

// row reads what is shown of a job.
func (j *job) row() row {
	r := row{
		Namespace: j.Namespace, Name: j.Name, Kind: string(j.Kind), State: j.state(), Replicas: j.Total(), Running: j.Active(),
		GPUs: map[string]int64{}, Message: j.message(), Created: j.object.GetCreationTimestamp().UTC().Format(time.RFC3339),
	}
	for _, part := range j.asks() {
		for name, n := range request.Of(part.pod) {
			r.GPUs[name] += n * int64(part.count)
		}
	}
	if !j.Status.Start.IsZero() {
		r.Started = j.Status.Start.UTC().Format(time.RFC3339)
	}
	r.progress = j.far
	if !j.Status.End.IsZero() {
		r.Ended = j.Status.End.UTC().Format(time.RFC3339)
	}
	return r
}

// state is what a job does, in one word.
func (j *job) state() string {
	switch {
	case j.object.GetDeletionTimestamp() != nil:
		return "Terminating"
	case j.problem != "":
		return "Invalid"
	}
	return j.State()
}

// message is why a job waits or has failed, without what programs read in it.
func (j *job) message() string {
	if j.problem != "" {
		return j.problem
	}
	if why := j.object.GetAnnotations()[api.AnnotationSuspendedFor]; j.Suspend && why != "" {
		return "suspended: " + why
	}
	sentence, _ := queue.Marked(j.Why())
	return sentence
}

// ask is one type of a job's pods.
type ask struct {
	pod   *v1.Pod
	count int
}

// asks are the pods of a job by their types, as far as they can be read.
func (j *job) asks() []ask {
	specs, err := objects.Specs(j.object)
	if err != nil {
		return nil
	}
	var out []ask
	for _, r := range j.Replicas {
		spec := specs[r.Type]
		if t, err := objects.Template(&spec); err == nil {
			out = append(out, ask{&v1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}, r.Count})
		}
	}
	return out
}

// gpusText is what all replicas request of GPUs, for a column: whole GPUs are added up, others counted.
func (j *job) gpusText() string {
	whole, others := 0, map[string]int{}
	for _, part := range j.asks() {
		text := request.GPUsText(part.pod)
		if n, err := strconv.Atoi(text); err == nil {
			whole += n * part.count
		} else if text != "-" {
			others[text] += part.count
		}
	}
	var out []string
	if whole > 0 {
		out = append(out, strconv.Itoa(whole))
	}
	for _, text := range slices.Sorted(maps.Keys(others)) {
		if n := others[text]; n > 1 {
			text = fmt.Sprintf("%d x %s", n, text)
		}
		out = append(out, text)
	}
	return cmp.Or(strings.Join(out, " + "), "-")
}

// table has a line for each job.
func table(list []*job, now time.Time, namespaces bool) *term.Table {
	t := &term.Table{Head: []string{"NAME", "KIND", "STATE", "REPLICAS", "GPUS", "AGE"}, Gap: 2, Spare: []string{"KIND", "AGE", "GPUS"}}
	if namespaces {
		t.Head = append([]string{"NAMESPACE"}, t.Head...)
	}
	state := slices.Index(t.Head, "STATE")
	reported := slices.ContainsFunc(list, func(j *job) bool { return j.far.Progress != nil })
	if reported {
		t.Head = slices.Insert(t.Head, len(t.Head)-1, "PROGRESS")
	}
	t.Alarm = func(row, column int) bool {
		return column == state && (list[row].state() == "Failed" || list[row].state() == "Invalid")
	}
	for _, j := range list {
		cells := []string{
			j.Name, string(j.Kind), j.state(), fmt.Sprintf("%d/%d", j.Active(), j.Total()), j.gpusText(),
			duration.HumanDuration(now.Sub(j.object.GetCreationTimestamp().Time)),
		}
		if reported {
			cells = slices.Insert(cells, len(cells)-1, j.far.short())
		}
		if namespaces {
			cells = append([]string{j.Namespace}, cells...)
		}
		t.Add(cells...)
	}
	return t
}

// brief is message as short as a table has it.
func (j *job) brief() string { return training.Brief(j.message()) }

// leastWhy is the least columns that are of use for WHY.
const leastWhy = 36

// addWhy adds the column WHY to a table of jobs, if that fits on a screen; a width of 0 is without bound. It reports
// whether it does.
func addWhy(t *term.Table, list []*job, width int) bool {
	used := 0
	for i, head := range t.Head {
		column := len(head)
		for _, cells := range t.Rows {
			column = max(column, len(cells[i]))
		}
		used += column + t.Gap
	}
	if width > 0 && width-used < leastWhy {
		return false
	}
	t.Head = append(t.Head, "WHY")
	t.Fit = func(row, width int) string { return term.FitList("", []string{list[row].brief()}, width) }
	for i, j := range list {
		t.Rows[i] = append(t.Rows[i], j.brief())
	}
	return true
}
