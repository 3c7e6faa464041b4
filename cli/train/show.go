package train

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/training"
)

// show is `berth train show`.
type show struct {
	command
	output term.Output
	watch  bool
}

func newShow(o client.Options) *cobra.Command {
	s := &show{command: command{options: o}}
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show the replicas of a training job: node, GPUs, utilization, restarts",
		Long: "Show each replica of a job with its rank, pod, node, devices, how busy its GPUs are, and restarts, and the conditions\n" +
			"of the job. Rank 0 is the Chief or Master, workers follow. Devices are shown if you can list nodes and pods of all\n" +
			"namespaces, and utilization if a DCGM exporter reports it.",
		Example:           "  berth train show bert\n  berth train show tfjob/mnist -o json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args[0]) },
	}
	s.addFlags(cmd)
	s.output.AddFlags(cmd, term.Rows{Kind: "TrainingDetailList", Row: detail{}})
	cmd.Flags().BoolVarP(&s.watch, "watch", "w", false, "watch, and print again after each change")
	return cmd
}

func (s *show) run(ctx context.Context, name string) error {
	if err := s.output.Check(); err != nil {
		return err
	}
	j, err := s.connect()
	if err != nil {
		return err
	}
	once := func(w io.Writer) error {
		o, err := j.find(ctx, name)
		if err != nil {
			return err
		}
		d, err := j.detail(ctx, o)
		if err != nil {
			return err
		}
		return s.print(w, o, d)
	}
	if !s.watch {
		return once(s.options.Out)
	}
	jobs := j.openings(ctx, j.namespace, "")
	return j.WatchOn(ctx, s.options, func(during context.Context) map[string]func() (watch.Interface, error) {
		out := jobs(during)
		out["watch pods"] = func() (watch.Interface, error) {
			return j.CoreV1().Pods(j.namespace).Watch(during, metav1.ListOptions{})
		}
		return out
	}, once)
}

// print writes a job in the form asked for.
func (s *show) print(w io.Writer, o *job, d *detail) error {
	switch {
	case s.output.Object():
		return term.Write(w, &s.output, term.NewList("TrainingDetailList", []detail{*d}))
	case s.output.Format == term.OutputName:
		_, err := term.PrintLine(w, resourceName(o.Kind, o.Name))
		return err
	}
	now, screen := s.options.Time(), s.output.Screen(s.options.Out)
	term.PrintBlock(w, screen.Wrapped(d.head(o, now)))
	for _, part := range [][2]string{{"WHY", training.Brief(d.Message)}, {"PROGRESS", d.progress.text()}, {"CAUSE", d.Cause}} {
		if part[1] != "" {
			term.PrintBlock(w, "\n"+screen.Section(part[0], part[1]))
		}
	}
	term.PrintLine(w, "")
	if err := d.rankTable().Write(w, screen, s.output.NoHeaders); err != nil {
		return err
	}
	if d.Slowest != nil {
		r := d.Ranks[slices.IndexFunc(d.Ranks, func(r rank) bool { return r.Rank == *d.Slowest })]
		term.Printf(w, "slowest by GPU utilization: rank %d, %s (mean of the ranks %s)\n", r.Rank, percent(r.Busy), percent(d.MeanBusy))
	}
	term.PrintLine(w, "")
	return d.conditionTable(now).Write(w, screen, s.output.NoHeaders)
}

// head is a job in a line.
func (d *detail) head(o *job, now time.Time) string {
	text := fmt.Sprintf("%s/%s: %s, %s", d.Namespace, d.Name, d.Kind, d.State)
	if at := o.since(); !at.IsZero() {
		text += " for " + duration.HumanDuration(max(0, now.Sub(at)))
	}
	text += fmt.Sprintf(", %d of %s running", d.Running, term.Count(d.Replicas, "replica"))
	if gpus := o.gpusText(); gpus != "-" {
		text += ", GPUs: " + gpus
	}
	if d.Elastic != "" {
		text += ", elastic " + d.Elastic
	}
	return text
}

// since is since when a job does what it does: the time of the condition of its state.
func (j *job) since() time.Time {
	of := j.state()
	switch of {
	case training.StateQueued:
		of = training.ConditionQueued
	case training.StateSuspending, "Terminating", "Invalid":
		return time.Time{}
	}
	for _, c := range j.Status.Conditions {
		if c.Type == of && c.True {
			return c.Since
		}
	}
	return time.Time{}
}

// rankTable has a line for each replica.
func (d *detail) rankTable() *term.Table {
	t := &term.Table{Head: []string{"RANK", "POD", "NODE", "DEVICES", "BUSY", "PHASE", "RESTARTS"}, Gap: 2, Spare: []string{"DEVICES", "RESTARTS"}}
	t.Alarm = func(row, column int) bool { return column == 5 && d.Ranks[row].Phase == string(training.Failed) }
	for _, r := range d.Ranks {
		var devices []string
		for _, one := range r.Devices {
			if text := strconv.Itoa(one.Index); one.Index >= 0 && !slices.Contains(devices, text) {
				devices = append(devices, text)
			}
		}
		pod := cmp.Or(r.Pod, training.Member{Type: r.Type, Index: r.Index}.Name(d.Name))
		t.Add(strconv.Itoa(r.Rank), pod, cmp.Or(r.Node, "-"), cmp.Or(strings.Join(devices, ","), "-"), percent(r.Busy), r.Phase, strconv.Itoa(r.Restarts))
	}
	return t
}

// conditionTable has a line for each condition.
func (d *detail) conditionTable(now time.Time) *term.Table {
	t := &term.Table{Head: []string{"CONDITION", "STATUS", "FOR", "MESSAGE"}, Gap: 2, Wrap: true}
	t.Fit = func(row, width int) string { return term.FitList("", []string{d.Conditions[row].Message}, width) }
	for _, c := range d.Conditions {
		t.Add(c.Type, c.Status, duration.HumanDuration(max(0, now.Sub(c.since))), c.Message)
	}
	return t
}

// percent writes a ratio; nil is unknown.
func percent(ratio *float64) string {
	if ratio == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100**ratio)
}
