package gang

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/admit"
	"berth.dev/berth/scheduler/quota"
)

// admitted asks the quotas for the gang of a task, and has the plan place no more members
// than there is quota for. nil is that it may be planned.
func (g *Plans) admitted(cycle fwk.CycleState, pod *v1.Pod, task *Task) *fwk.Status {
	c := g.p.Cluster
	if !c.Quota.On() {
		return nil
	}
	ask := &quota.Ask{Lead: pod, Pods: task.Pods, Need: task.Need, Gang: task.Name, Ticket: c.Waiting.Ticket(pod)}
	if task.Extra {
		ask = quota.Alone(pod, ask.Ticket)
	}
	no, count := admit.Gang(c, cycle, ask)
	if no != nil {
		return no
	}
	if c.Quota.Choices(task.Pods...) == 0 {
		*task = *task.first(count)
	}
	return nil
}

// planByQuota is plan, of the first choice of the gang's quotas that has room: all of its
// pods are placed on that. Where none has, it is the outcome for the first, with what is lacking least.
func (g *Plans) planByQuota(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, task *Task) (out outcome, err error) {
	q, pods := g.p.Cluster.Quota, task.Pods
	n := q.Choices(pods...)
	if n == 0 {
		return g.plan(ctx, cycle, pod, task)
	}
	for k := range n {
		plan, err := g.plan(ctx, cycle, pod, task.first(q.Choose(k, pods...)))
		if err != nil || plan.refusal == nil {
			return plan, err
		}
		if k == 0 {
			out = plan
		}
		out.refusal.ShortMilli = min(out.refusal.ShortMilli, plan.refusal.ShortMilli)
	}
	q.Choose(-1, pods...)
	return out, nil
}

// first returns the task for as many of its pods as there is quota for, 0 being all. Where all ask for the same any of them
// will do; else it is the first, by which the quota was counted.
func (t *Task) first(count int) *Task {
	if count <= 0 || count >= len(t.Pods) {
		return t
	}
	out, inner := *t, *t.Task
	out.Task = &inner
	asks := request.Of(t.Pods[0])
	if !slices.ContainsFunc(t.Pods, func(p *v1.Pod) bool { return !maps.Equal(request.Of(p), asks) }) {
		if inner.Most == 0 || count < inner.Most {
			inner.Most = count
		}
		return &out
	}
	out.Pods, inner.Members = t.Pods[:count], t.Members[:count]
	return &out
}

// promise keeps quota for the members of a task that have places.
func (g *Plans) promise(task *Task, nodes map[types.UID]string) {
	if !g.p.Cluster.Quota.On() {
		return
	}
	var placed []*v1.Pod
	for _, pod := range task.Pods {
		if nodes[pod.UID] != "" {
			placed = append(placed, pod)
		}
	}
	g.p.Cluster.Quota.Promise(placed, nodes)
}
