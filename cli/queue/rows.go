package queue

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

// queueRow is a queue in `berth queue -o json`. Amounts are GPUs, of MIG profiles MIG
// devices, of the queue and those below it.
type queueRow struct {
	Queue    string     `json:"queue"`
	Parent   string     `json:"parent,omitempty"`
	Depth    int        `json:"depth"` // 0 is a root
	Quotas   []quotaRow `json:"quotas"`
	Waiting  int        `json:"waiting"` // workloads that wait for quota
	Stop     string     `json:"stop,omitempty"`
	Problems []string   `json:"problems,omitempty"`
}

// quotaRow is one kind of GPUs.
type quotaRow struct {
	GPUs     string  `json:"gpus"` // as in spec.quotas
	Nominal  float64 `json:"nominal"`
	Used     float64 `json:"used"`
	Borrowed float64 `json:"borrowed"`
	Lent     float64 `json:"lent"`
}

// rows lists the queues, parents before their children.
func (s *state) rows() []queueRow {
	objects := map[string]*v1alpha1.Queue{}
	for _, q := range s.queues {
		objects[q.Name] = q
	}
	var standings map[string][]quota.Standing
	if s.count != nil {
		standings = s.count.Book.Standings()
	}
	waiting := s.waiting(objects)
	var out []queueRow
	for _, name := range s.tree.Names() {
		q, path := objects[name], s.tree.Path(name)
		row := queueRow{Queue: name, Parent: q.Spec.Parent, Depth: len(path) - 1, Quotas: []quotaRow{}, Waiting: waiting[name], Problems: s.problems(q)}
		if q.Spec.Stop != v1alpha1.StopNone {
			row.Stop = string(q.Spec.Stop)
		}
		for _, a := range standings[name] {
			row.Quotas = append(row.Quotas, quotaRow{queues.GPUsOf(a.Resource), gpus(a.Nominal), gpus(a.Used), gpus(a.Borrowed), gpus(a.Lent)})
		}
		if s.count == nil {
			for _, r := range q.Status.Resources {
				row.Quotas = append(row.Quotas, quotaRow{
					r.GPUs, r.Nominal.AsApproximateFloat64(), r.Used.AsApproximateFloat64(), r.Borrowed.AsApproximateFloat64(), r.Lent.AsApproximateFloat64(),
				})
			}
		}
		out = append(out, row)
	}
	return out
}

func gpus(parts int64) float64 { return term.FromMilli(quota.Milli(parts)) }

// waiting is how many workloads wait in each queue and those below it.
func (s *state) waiting(objects map[string]*v1alpha1.Queue) map[string]int {
	out := map[string]int{}
	for name, q := range objects {
		if s.count == nil {
			out[name] = int(q.Status.Waiting)
			continue
		}
		n := s.count.Book.Count(name)
		for _, above := range s.tree.Path(name) {
			out[above] += n
		}
	}
	return out
}

// problems are what is wrong with a queue, in sentences.
func (s *state) problems(q *v1alpha1.Queue) []string {
	var out []string
	if s.count == nil {
		for _, c := range q.Status.Conditions {
			if c.Type == v1alpha1.QueueValid && c.Status == "False" {
				out = append(out, c.Message)
			}
		}
		return out
	}
	for _, p := range s.count.Problems {
		if p.Queue == q.Name {
			out = append(out, p.Field+": "+p.Text)
		}
	}
	return out
}

// treeTable has a line for each kind of GPUs of each queue.
func treeTable(rows []queueRow) *term.Table {
	t := &term.Table{Head: []string{"QUEUE", "GPUS", "QUOTA", "USED", "BORROWED", "LENT", "WAITING", ""}, Gap: 2, Spare: []string{"LENT", "BORROWED"}}
	for i := range rows {
		r := &rows[i]
		name, waiting := strings.Repeat("  ", r.Depth)+r.Queue, strconv.Itoa(r.Waiting)
		state := ""
		if r.Stop != "" {
			state = " stopped (" + r.Stop + ")"
		}
		if len(r.Quotas) == 0 {
			t.Add(name, "-", "-", "-", "-", "-", waiting, strings.TrimSpace(state))
		}
		for _, q := range r.Quotas {
			t.Add(name, short(q.GPUs), number(q.Nominal), number(q.Used), number(q.Borrowed), number(q.Lent), waiting, bar(q)+state)
			name, waiting, state = "", "", ""
		}
	}
	return t
}

// short is a kind of GPUs without what people do not say.
func short(name string) string {
	if p, ok := gpu.Find(name); ok {
		return gpu.ShortName(p.Name)
	}
	return name
}

func number(n float64) string { return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64) }

// barWidth is how many characters of a bar the nominal quota has, and what is borrowed at most.
const barWidth = 10

// bar draws what a queue does with its nominal quota, and what it borrows.
func bar(q quotaRow) string {
	if q.Nominal <= 0 && q.Borrowed <= 0 {
		return ""
	}
	unit := q.Nominal / barWidth
	if q.Nominal <= 0 {
		unit = q.Borrowed / barWidth
	}
	cells := func(n float64) int {
		if n <= 0 {
			return 0
		}
		return min(barWidth, max(1, int(math.Round(n/unit))))
	}
	over := cells(q.Borrowed)
	if q.Nominal <= 0 {
		return "[]" + strings.Repeat("+", over)
	}
	used := cells(min(q.Used, q.Nominal))
	if used == barWidth && q.Used < q.Nominal {
		used--
	}
	lent := min(barWidth-used, cells(q.Lent))
	return fmt.Sprintf("[%s%s%s]%s", strings.Repeat("=", used), strings.Repeat("-", lent), strings.Repeat(".", barWidth-used-lent), strings.Repeat("+", over))
}
