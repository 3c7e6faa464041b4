package why

import (
	"context"
	"slices"

	"berth.dev/berth/cli/notebook"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/pool"
)

// Outlook is what `berth why` would say of a pod that does not exist yet.
type Outlook struct {
	State  reasons.Reason
	Code   reasons.Code // "" is none
	Cause  string
	Others []string          // causes beside the binding one, and that enough is free but on several nodes
	Start  *reasons.Estimate // when there is room for it; nil is that it does not wait for GPUs
	Helps  []string
	Never  bool // no wait helps: someone has to change something
}

// Judge explains pods that do not exist yet as `berth why` explains those that wait. It reads
// the surroundings of pods once.
type Judge struct{ e *explainer }

// NewJudge returns a judge for the pods of a cluster.
func NewJudge(n *notebook.Notebooks) *Judge {
	e := newExplainer(n)
	e.commands, e.unnamed = false, true // the pods to change are not there, and who holds GPUs is not said
	return &Judge{e}
}

// Starts expects when pods of a plan start that wait, by queues.Workload. Without the right to read run times, none is known.
func (j *Judge) Starts(ctx context.Context, p *explain.Plan) (map[string]reasons.Likely, error) {
	now := j.e.o.Time()
	if j.e.around == nil {
		j.e.around = j.e.look(ctx, now)
	}
	return p.Starts(j.e.around.RunTimes, j.e.around.Outcomes, j.e.around.Ends, now)
}

// Outlook explains the pod of a situation.
func (j *Judge) Outlook(ctx context.Context, s *explain.Situation) (*Outlook, error) {
	j.e.namespace = s.Pod.Namespace
	if g := j.e.growing(ctx, s); g != nil && !j.e.autoscaled(ctx) {
		s.Pool = g.Name + ", which " + g.String() + ","
	}
	facts := s.Facts(nil, j.e.o.Time())
	verdict := reasons.Judge(&facts)
	r := &report{Code: facts.Code(&verdict)}
	out := &Outlook{State: verdict.Reason, Code: r.Code, Cause: verdict.Message, Never: facts.NoWaitHelps(&verdict)}
	if len(s.Nodes) == 0 {
		return out, nil
	}
	if err := j.e.waits(ctx, r, s); err != nil {
		return nil, err
	}
	out.Code, out.Others, out.Helps = r.Code, r.Others, r.Helps
	if r.Scattered != "" {
		out.Others = slices.Insert(slices.Clone(out.Others), 0, r.Scattered)
	}
	out.Start = r.start
	if pool.Start(j.e.grown, s.Pod, s.Volumes) != nil {
		out.Never = false
	}
	return out, nil
}
