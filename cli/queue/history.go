package queue

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
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// history is `berth queue history`.
type history struct {
	o       client.Options
	cluster client.Flags
	output  term.Output
}

func newHistory(o client.Options) *cobra.Command {
	h := &history{o: o}
	cmd := &cobra.Command{
		Use:   "history [NAME]",
		Short: "Show what happened to queues lately: admissions, evictions, borrowing, warnings",
		Long: "Show what happened to a queue and those below it, or to all queues, the last first. It is read from the events of the\n" +
			"cluster, which API servers keep for an hour by default (--event-ttl), so older rows are missing. How often\n" +
			"workloads were evicted to return quota is counted for 7 days in the status of the queues. If you cannot list\n" +
			"the events and pods of all namespaces, you see those of your namespace, and counts.",
		Example: "  berth queue history\n  berth queue history vision\n  berth queue history vision -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.run(cmd.Context(), strings.Join(args, ""))
		},
	}
	h.cluster.AddFlags(cmd, true)
	cmd.Flags().Lookup("namespace").Usage = "show only what happened to pods of this namespace"
	cmd.Flags().Lookup("all-namespaces").Usage = "show what happened in all namespaces (the default)"
	h.output.AddFlags(cmd, term.Rows{Kind: "QueueEventList", Row: happenedRow{}})
	return cmd
}

func (h *history) run(ctx context.Context, name string) error {
	if err := h.output.Check(); err != nil {
		return err
	}
	c, err := h.cluster.Connect(h.o)
	if err != nil {
		return err
	}
	s, err := read(ctx, c, h.o)
	if err != nil {
		return err
	}
	if name != "" && s.named(name) == nil {
		return s.unknown(name)
	}
	namespace, err := h.cluster.Namespace()
	if err != nil {
		return err
	}
	happened, only, err := s.history(ctx, c, namespace)
	if err != nil {
		return err
	}
	shown := h.cluster.ShownNamespace()
	happened = slices.DeleteFunc(happened, func(one queues.Happened) bool {
		return !s.within(one.Queue, name) && !s.within(one.By, name) || shown != "" && one.Owner.Namespace != shown
	})
	return h.print(h.o.Out, s, name, happened, only)
}

// history reads what happened: in all namespaces, or only in one and to what its pods show, where no more may
// be listed. only says so; "" is that all was read.
func (s *state) history(ctx context.Context, c *client.Cluster, namespace string) (out []queues.Happened, only string, err error) {
	if s.count != nil {
		events, err := c.QueueEvents(ctx, "")
		if err == nil {
			return queues.History(s.count.Members, s.situation.Namespaces, s.pods, events), "", nil
		}
		if !apierrors.IsForbidden(err) {
			return nil, "", c.Failed("list events", err)
		}
	}
	only = "only namespace " + namespace + " is shown: you cannot list nodes, or the pods and events of all namespaces"
	events, err := c.QueueEvents(ctx, namespace)
	if apierrors.IsForbidden(err) {
		return nil, "no workloads are shown: you cannot list the events of all namespaces, or of " + namespace, nil
	}
	if err != nil {
		return nil, "", c.Failed("list events of "+namespace, err)
	}
	pods, err := c.PodsOf(ctx, namespace, func(p *v1.Pod) bool { return request.Of(p) != nil })
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, "", c.Failed("list pods of "+namespace, err)
	}
	ns, err := c.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil { // without its labels
		ns = &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	}
	return queues.History(queues.NewMembers(s.queues), []*v1.Namespace{ns}, pods, events), only, nil
}

// within reports whether a queue is another or below it; "" is all queues.
func (s *state) within(queue, of string) bool {
	return queue != "" && (of == "" || slices.Contains(s.tree.Path(queue), of))
}

// happenedRow is something that happened, in `berth queue history -o json`.
type happenedRow struct {
	At        string `json:"at"` // RFC 3339, the last time
	Queue     string `json:"queue"`
	By        string `json:"by,omitempty"`        // the queue that quota was returned to
	Namespace string `json:"namespace,omitempty"` // with name "": it happened to the queue
	Name      string `json:"name,omitempty"`      // with its kind, such as "job/train"
	Pods      int    `json:"pods,omitempty"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`

	what string
	at   time.Time
}

// print writes what happened in the form asked for.
func (h *history) print(w io.Writer, s *state, name string, happened []queues.Happened, only string) error {
	rows := rowsOf(happened)
	if h.output.Object() {
		return term.Write(w, &h.output, term.NewList("QueueEventList", rows))
	}
	if h.output.Format == term.OutputName {
		for i := range rows {
			term.PrintLine(w, cmp.Or(rows[i].Name, "queue/"+rows[i].Queue))
		}
		return nil
	}
	now := h.o.Time()
	switch {
	case len(rows) == 0 && only == "":
		term.PrintLine(w, "no event that is still kept shows that something happened")
	case len(rows) > 0:
		t := &term.Table{Head: []string{"AGO", "QUEUE", "NAMESPACE", "WORKLOAD", "PODS", "WHAT"}, Gap: 2, Wrap: true, Spare: []string{"PODS", "NAMESPACE"}}
		for i := range rows {
			r := &rows[i]
			pods := "-"
			if r.Pods > 0 {
				pods = strconv.Itoa(r.Pods)
			}
			t.Add(duration.HumanDuration(max(0, now.Sub(r.at))), r.Queue, cmp.Or(r.Namespace, "-"), cmp.Or(r.Name, "-"), pods, r.what)
		}
		if err := t.Write(w, h.output.Screen(h.o.Out), h.output.NoHeaders); err != nil {
			return err
		}
	}
	for _, text := range s.evictions(name, now) {
		term.PrintBlock(w, term.ScreenOf(w).Wrapped(text))
	}
	if only != "" {
		term.PrintLine(w, only)
	}
	term.PrintBlock(h.o.Err, term.ScreenOf(h.o.Err).Wrapped("read from events, which API servers keep for an hour by default"))
	return nil
}

func rowsOf(happened []queues.Happened) []happenedRow {
	var out []happenedRow
	for _, one := range happened {
		r := happenedRow{
			At: one.At.UTC().Format(time.RFC3339), at: one.At, Queue: one.Queue, By: one.By, Namespace: one.Owner.Namespace, Pods: one.Pods,
			Reason: one.Reason, Message: one.Message, what: queues.EventReasons[one.Reason],
		}
		if one.Owner.Name != "" {
			r.Name = strings.ToLower(one.Owner.Kind) + "/" + one.Owner.Name
		}
		if one.By != "" {
			r.what += " to queue " + one.By
		}
		if one.Pods == 0 {
			r.what = one.Message
		}
		out = append(out, r)
	}
	return out
}

// evictions counts, by queue, the workloads that were evicted to return quota, as the status of the queues has
// them: without names.
func (s *state) evictions(name string, now time.Time) (out []string) {
	for _, q := range s.queues {
		works, pods := 0, 0
		var last time.Time
		by := ""
		for _, e := range queues.Evicted(q) {
			if !e.Counts(now) || !s.within(q.Name, name) {
				continue
			}
			works, pods = works+1, pods+e.Pods
			if e.Last.After(last) {
				last, by = e.Last, e.By
			}
		}
		if works > 0 {
			out = append(out, fmt.Sprintf("queue %s: %s of %s evicted in 7 days to return quota, the last %s ago to queue %s",
				q.Name, term.Count(pods, "pod"), term.Count(works, "workload"), duration.HumanDuration(max(0, now.Sub(last))), by))
		}
	}
	return out
}
