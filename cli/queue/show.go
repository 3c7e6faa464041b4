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
	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/user"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// show is `berth queue show`.
type show struct {
	o       client.Options
	cluster client.Flags
	output  term.Output
	watch   bool
}

func newShow(o client.Options) *cobra.Command {
	s := &show{o: o}
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show the line of a queue: who waits for quota, for what, since when, and why",
		Long: "Show the amounts of a queue, which queues borrow from it, and the workloads that wait for quota in it, in the\n" +
			"order of their turns. A smaller workload may start before one that is ahead of it. STARTS is when a workload is likely to\n" +
			"start, and by when in nine of ten cases, by how long earlier workloads ran; the column is left out where nothing is known.",
		Example: "  berth queue show vision\n  berth queue show vision -o json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args[0]) },
	}
	s.cluster.AddFlags(cmd, false)
	s.output.AddFlags(cmd, term.Rows{Kind: "WaitingWorkloadList", Row: waitRow{}})
	cmd.Flags().BoolVarP(&s.watch, "watch", "w", false, "watch, and print again after each change")
	return cmd
}

func (s *show) run(ctx context.Context, name string) error {
	if err := s.output.Check(); err != nil {
		return err
	}
	c, err := s.cluster.Connect(s.o)
	if err != nil {
		return err
	}
	once := func(w io.Writer) error {
		st, err := read(ctx, c, s.o)
		if err == nil && st.count != nil {
			err = st.expect(ctx, c, s.o)
		}
		if err != nil {
			return err
		}
		return s.print(w, st, name)
	}
	if s.watch {
		return c.Watch(ctx, s.o, once)
	}
	return once(s.o.Out)
}

// print writes a queue and its line in the form asked for.
func (s *show) print(w io.Writer, st *state, name string) error {
	q := st.named(name)
	if q == nil {
		return st.unknown(name)
	}
	line := st.line(name, s.o.Time())
	switch {
	case s.output.Object():
		return term.Write(w, &s.output, term.NewList("WaitingWorkloadList", line))
	case s.output.Format == term.OutputName:
		for i := range line {
			term.PrintLine(w, line[i].Name)
		}
		return nil
	}
	rows := st.rows()
	row := rows[slices.IndexFunc(rows, func(r queueRow) bool { return r.Queue == name })]
	row.Depth = 0
	if err := treeTable([]queueRow{row}).Write(w, s.output.Screen(s.o.Out), s.output.NoHeaders); err != nil {
		return err
	}
	for _, text := range slices.Concat(facts(q), st.borrowers(rows, name), row.Problems) {
		term.PrintLine(w, text)
	}
	if st.hidden != "" {
		term.PrintLine(w, st.hidden)
		return nil
	}
	term.PrintLine(w, "")
	if len(line) == 0 {
		term.PrintLine(w, "no workload waits for quota in this queue")
	} else if err := lineTable(line).Write(w, s.output.Screen(s.o.Out), s.output.NoHeaders); err != nil {
		return err
	}
	for _, text := range st.strangers(name) {
		term.PrintLine(w, text)
	}
	if n := st.placeable(name); n > 0 {
		term.Printf(w, "%s more can have quota and wait for nodes: `%s why -A` explains\n", term.Count(n, "workload"), s.o.Name)
	}
	return nil
}

// named returns the queue of a name; nil is none.
func (s *state) named(name string) *v1alpha1.Queue {
	if at := slices.IndexFunc(s.queues, func(q *v1alpha1.Queue) bool { return q.Name == name }); at >= 0 {
		return s.queues[at]
	}
	return nil
}

// unknown says that there is no queue of a name, and which is near.
func (s *state) unknown(name string) error {
	var names []string
	for _, q := range s.queues {
		names = append(names, q.Name)
	}
	switch near := gpu.NearestWord(name, names); {
	case near != "":
		return fmt.Errorf("there is no queue %s; did you mean %s?", name, near)
	case len(names) == 0:
		return fmt.Errorf("there is no queue %s: the cluster has none", name)
	}
	return fmt.Errorf("there is no queue %s; existing queues: %s", name, term.FitList("", names, term.PlainWidth/2))
}

// facts are what a queue says of itself beside its quotas, where it is not usual.
func facts(q *v1alpha1.Queue) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if q.Spec.Parent != "" {
		say("below %s", q.Spec.Parent)
	}
	for _, l := range q.Spec.PerUser {
		say("each user holds at most %s", amount(l))
	}
	for _, l := range q.Spec.PerPod {
		say("each pod asks for at most %s", amount(l))
	}
	if q.Spec.Order == v1alpha1.OrderFair {
		say("users take turns by what they hold")
	}
	if q.Spec.MaxRunTime != "" {
		say("workloads run for at most %s", q.Spec.MaxRunTime)
	}
	return out
}

// amount writes a limit as people say it.
func amount(l v1alpha1.QueueLimit) string {
	switch l.GPUs {
	case v1alpha1.GPUsAll:
		return l.Max.String() + " GPUs"
	case v1alpha1.GPUsEquivalents:
		return l.Max.String() + " GPU-equivalents"
	}
	return l.Max.String() + " " + short(l.GPUs)
}

// borrowers says which queues borrow of the kinds of GPUs that a queue lends: those without
// queues below them, of the same tree.
func (s *state) borrowers(rows []queueRow, name string) []string {
	lends, parents := map[string]bool{}, map[string]bool{}
	for i := range rows {
		parents[rows[i].Parent] = true
		for _, q := range rows[i].Quotas {
			if rows[i].Queue == name && q.Lent > 0 {
				lends[q.GPUs] = true
			}
		}
	}
	var by []string
	for i := range rows {
		r := &rows[i]
		if parents[r.Queue] || s.root(r.Queue) != s.root(name) {
			continue
		}
		for _, q := range r.Quotas {
			if q.Borrowed > 0 && lends[q.GPUs] {
				by = append(by, fmt.Sprintf("%s %s %s", r.Queue, number(q.Borrowed), short(q.GPUs)))
			}
		}
	}
	if len(by) == 0 {
		return nil
	}
	return []string{"queues that borrow: " + strings.Join(by, ", ")}
}

// root is the topmost queue above a queue.
func (s *state) root(name string) string {
	path := s.tree.Path(name)
	return path[len(path)-1]
}

// waitRow is a workload that waits, in `berth queue show -o json`.
type waitRow struct {
	Position  int      `json:"position"` // from 1
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"` // with its kind, such as "job/train"
	Pods      int      `json:"pods"`
	User      string   `json:"user"` // - is not known
	Asks      []askRow `json:"asks"` // of the pods that it needs to start
	Priority  int32    `json:"priority"`
	Since     string   `json:"since"` // RFC 3339
	Why       string   `json:"why"`
	// When it is likely to start, RFC 3339; "" is not known. In one of ten cases it starts after NineOfTenBy.
	LikelyStart string `json:"likelyStart,omitempty"`
	NineOfTenBy string `json:"nineOfTenBy,omitempty"`

	since  time.Duration
	starts string // LikelyStart and NineOfTenBy for people
}

// askRow is one kind of devices.
type askRow struct {
	GPUs    float64 `json:"gpus"`
	Devices int64   `json:"devices"`
	Profile string  `json:"migProfile,omitempty"`
}

// line lists the workloads that wait for quota in a queue, in the order of their turns.
func (s *state) line(name string, now time.Time) []waitRow {
	if s.count == nil {
		return nil
	}
	var out []waitRow
	for k, w := range s.count.Book.Waiting(name) {
		pods := s.count.Pods(w.ID)
		row := waitRow{Position: k + 1, Pods: len(w.Pods), User: w.User, Priority: w.Ticket.Priority, Since: w.Since.UTC().Format(time.RFC3339), since: now.Sub(w.Since)}
		if row.User == "" {
			row.User = user.Unknown
		}
		what := "the pod"
		if object := s.count.Suspended(w.ID); object != nil {
			what = "the " + object.Kind
			row.Namespace, row.Name = object.Object.GetNamespace(), strings.ToLower(object.Kind)+"/"+object.Object.GetName()
		}
		if len(pods) > 0 {
			owner := request.OwnerOf(pods[0])
			row.Namespace, row.Name = owner.Namespace, strings.ToLower(owner.Kind)+"/"+owner.Name
			if g, err := request.GangOf(pods[0]); err == nil && g != nil {
				if what = "gang " + g.Name; owner.Kind == "Pod" {
					row.Name = "gang/" + g.Name
				}
			}
		}
		need := len(w.Pods)
		if w.Need > 0 {
			need = min(need, w.Need)
		}
		row.Asks = asks(w.Pods[:need])
		v := s.count.Book.Try(&w)
		row.Why = v.Sentence(what, w.User)
		if len(pods) > 0 {
			row.expected(s.starts[queues.Workload(pods[0])], now)
		}
		out = append(out, row)
	}
	return out
}

// asks adds up what pods ask for.
func asks(pods []quota.Pod) []askRow {
	out := []askRow{}
	for _, p := range pods {
		for _, piece := range p.Pieces {
			i := slices.IndexFunc(out, func(a askRow) bool { return a.Profile == piece.Profile })
			if i < 0 {
				i, out = len(out), append(out, askRow{Profile: piece.Profile})
			}
			out[i].GPUs += gpus(piece.Parts)
			out[i].Devices += piece.Devices
		}
	}
	return out
}

// placeable is how many workloads of a queue have no node, though there is quota for them.
func (s *state) placeable(name string) int {
	seen := map[string]bool{}
	for _, pod := range s.pods {
		if pod.Spec.NodeName != "" || request.Of(pod) == nil || s.count.QueueOf(pod).Queue != name || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		if w := s.count.WorkloadOf(pod); w != nil && !s.count.Book.Waits(w.ID) && pod.Status.Phase == v1.PodPending {
			seen[w.ID] = true
		}
	}
	for _, object := range s.situation.Suspended {
		if w := s.count.WorkloadFor(object); w != nil && w.Queue == name && !s.count.Book.Waits(w.ID) {
			seen[w.ID] = true
		}
	}
	return len(seen)
}

// lineTable has a line for each workload that waits.
func lineTable(list []waitRow) *term.Table {
	t := &term.Table{Head: []string{"#", "NAMESPACE", "WORKLOAD", "PODS", "USER", "ASKS", "PRIORITY", "FOR", "WHY"}, Gap: 2, Wrap: true, Spare: []string{"PRIORITY", "USER", "PODS", "NAMESPACE", "STARTS"}}
	timed := slices.ContainsFunc(list, func(r waitRow) bool { return r.starts != "" })
	if timed {
		t.Head = slices.Insert(t.Head, len(t.Head)-1, "STARTS")
	}
	for i := range list {
		r := &list[i]
		var ask []string
		for _, a := range r.Asks {
			text := number(a.GPUs)
			if a.Profile != "" {
				text = fmt.Sprintf("%d %s", a.Devices, a.Profile)
			}
			ask = append(ask, text)
		}
		cells := []string{strconv.Itoa(r.Position), r.Namespace, r.Name, strconv.Itoa(r.Pods), r.User, strings.Join(ask, "+"), strconv.Itoa(int(r.Priority)), duration.HumanDuration(r.since)}
		if timed {
			cells = append(cells, cmp.Or(r.starts, "-"))
		}
		t.Add(append(cells, r.Why)...)
	}
	return t
}
