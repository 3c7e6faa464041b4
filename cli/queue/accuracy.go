package queue

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/runs"
)

// accuracy is `berth queue accuracy`.
type accuracy struct {
	o       client.Options
	cluster client.Flags
	output  term.Output
}

func newAccuracy(o client.Options) *cobra.Command {
	a := &accuracy{o: o}
	cmd := &cobra.Command{
		Use:   "accuracy [QUEUE]",
		Short: "Show how good the estimates of starts were",
		Long: "Show how good the estimates of starts were, in a queue and those below it, or in the cluster. The scheduler estimates each\n" +
			"workload that waits when it was submitted, and compares that with its start: the last 1000 that have started count.\n" +
			"ERROR is the median error of the estimated wait, as part of the wait, and of ten minutes for waits shorter than that.\n" +
			"IN TIME is how many started when nine of ten were expected to have started. Workloads with 4 and more GPUs are apart,\n" +
			"since few estimates are known for them.",
		Example: "  berth queue accuracy\n  berth queue accuracy vision\n  berth queue accuracy -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd.Context(), strings.Join(args, ""))
		},
	}
	a.cluster.AddFlags(cmd, false)
	a.output.AddFlags(cmd, term.Rows{Kind: "StartAccuracyList", Row: accuracyRow{}})
	return cmd
}

// accuracyRow is how good estimates of workloads of a size were, in `berth queue accuracy -o json`.
type accuracyRow struct {
	GPUs    string `json:"gpus"`    // "under 4", or "4 and more"
	Started int    `json:"started"` // workloads with an estimate that have started
	// MedianError is the median of the errors of their waits, as part of the wait; null where none have started.
	MedianError *float64 `json:"medianError"`
	Bounded     int      `json:"bounded"` // how many of them had a time by which nine of ten start
	InTime      int      `json:"inTime"`  // how many of those started by then
	Unknown     int      `json:"unknown"` // workloads that have started without an estimate
}

func (a *accuracy) run(ctx context.Context, name string) error {
	if err := a.output.Check(); err != nil {
		return err
	}
	c, err := a.cluster.Connect(a.o)
	if err != nil {
		return err
	}
	within, err := a.within(ctx, c, name)
	if err != nil {
		return err
	}
	learned, err := c.Learned(ctx)
	if err != nil {
		return err
	}
	came, err := learned.Outcomes()
	if err != nil {
		return err
	}
	var rows []accuracyRow
	list := came.List()
	for _, size := range []string{"under 4", "4 and more"} {
		m := forecast.MeasureOf(list, func(o *forecast.Outcome) bool {
			return o.Large() == (size != "under 4") && (within == nil || within[o.Queue])
		})
		row := accuracyRow{GPUs: size, Started: m.Started, Bounded: m.Bounded, InTime: m.Within, Unknown: m.Unknown}
		if m.Started > 0 {
			row.MedianError = &m.Error
		}
		rows = append(rows, row)
	}
	waiting := slices.DeleteFunc(came.Waiting(), func(s forecast.Submission) bool { return within != nil && !within[s.Queue] })
	return a.print(a.o.Out, rows, len(waiting))
}

// within returns a queue and those below it, as what came of estimates names them; nil is that all count.
func (a *accuracy) within(ctx context.Context, c *client.Cluster, name string) (map[string]bool, error) {
	if name == "" {
		return nil, nil
	}
	list, _, err := c.Queues(ctx, a.o)
	if err != nil {
		return nil, err
	}
	specs, _ := queues.Specs(list)
	s := &state{queues: list, tree: quota.NewTree(specs)}
	if s.named(name) == nil {
		return nil, s.unknown(name)
	}
	out := map[string]bool{}
	for _, q := range list {
		if s.within(q.Name, name) {
			out[runs.Hidden(q.Name)] = true
		}
	}
	return out, nil
}

// print writes rows in the form asked for.
func (a *accuracy) print(w io.Writer, rows []accuracyRow, waiting int) error {
	switch {
	case a.output.Object():
		return term.Write(w, &a.output, term.NewList("StartAccuracyList", rows))
	case a.output.Format == term.OutputName:
		for i := range rows {
			term.PrintLine(w, rows[i].GPUs)
		}
		return nil
	}
	t := &term.Table{Head: []string{"GPUS", "STARTED", "ERROR", "IN TIME", "NO ESTIMATE"}, Gap: 2}
	some := 0
	for i := range rows {
		r := &rows[i]
		wrong, inTime := "-", "-"
		if r.MedianError != nil {
			wrong = fmt.Sprintf("%.0f%%", 100**r.MedianError)
		}
		if r.Bounded > 0 {
			inTime = fmt.Sprintf("%.0f%% of %d", 100*float64(r.InTime)/float64(r.Bounded), r.Bounded)
		}
		some += r.Started + r.Unknown
		t.Add(r.GPUs, strconv.Itoa(r.Started), wrong, inTime, strconv.Itoa(r.Unknown))
	}
	if err := t.Write(w, a.output.Screen(a.o.Out), a.output.NoHeaders); err != nil {
		return err
	}
	if some == 0 {
		term.PrintLine(w, "no workload has started yet that waited, or you cannot read ConfigMap "+runs.Namespace+"/"+runs.Name)
	}
	if waiting > 0 {
		term.Printf(w, "not started yet: %s\n", term.Count(waiting, "workload"))
	}
	return nil
}
