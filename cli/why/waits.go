package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/pool"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// waits fills in why the pod of s, which has no node, waits, and what would help.
func (e *explainer) waits(ctx context.Context, r *report, s *explain.Situation) error {
	now := e.o.Time()
	if e.around == nil {
		e.around = e.look(ctx, now)
	}
	s.Budgets, s.Ends, s.RunTimes, s.Idle, s.Outcomes = e.around.budgets, e.around.Ends, e.around.RunTimes, e.around.idle, e.around.Outcomes
	found, err := explain.Find(s, now)
	if err != nil {
		return err
	}
	if found.Start != nil {
		r.starts(found.Start, now)
	}
	r.judged(found)
	if !e.unnamed {
		e.nameUsers(ctx, found.Holders, s.Pods)
	}
	r.Obstacles, r.Overtaken = found.Rejections, found.Overtaken.String()
	for _, h := range found.Holders {
		o := h.Oldest.Owner
		row := holder{
			Node: h.Node, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, User: h.Oldest.User, GPUs: term.FromMilli(h.MilliGPU),
			Since: h.Oldest.Since.UTC().Format(time.RFC3339), since: h.Oldest.Since,
		}
		if d, ok := s.Idle[o]; ok {
			seconds := d.Seconds()
			row.IdleSeconds = &seconds
		}
		if s.Private && o.Namespace != s.Pod.Namespace {
			row.Kind, row.Namespace, row.Name, row.User = "", "", "", ""
		}
		r.Holders = append(r.Holders, row)
	}
	for _, relief := range found.Reliefs {
		if e.forOther(relief.Admin) {
			continue
		}
		r.Helps = append(r.Helps, relief.String())
		if e.commands && relief.Command != "" {
			r.Helps = append(r.Helps, "  "+relief.Command)
		}
	}
	if g := e.growing(ctx, s); g != nil && !e.forOther(true) {
		r.Helps = append(r.Helps, fmt.Sprintf("let pool %s grow, which %s: it then fits on a new node of it", g.Name, g))
	}
	for _, stop := range found.Stops {
		if e.forOther(stop.Owner.Namespace != s.Pod.Namespace) {
			continue
		}
		r.Helps = append(r.Helps, fmt.Sprintf("stop %s, idle for %s (`%s notebook stop %s -n %s`): it then fits on %s",
			stop.Owner, idleFor(stop.Idle), e.o.Name, stop.Owner.Name, stop.Owner.Namespace, stop.Node))
	}
	for _, b := range found.Blocked {
		if !e.forOther(true) {
			r.Helps = append(r.Helps, b.String())
		}
	}
	return nil
}

// around is what decides when others leave, as far as it may be read.
type around struct {
	notebook.Foresight
	budgets []policyv1.PodDisruptionBudget
	idle    map[request.Owner]time.Duration
}

// look reads what decides when others leave.
func (e *explainer) look(ctx context.Context, now time.Time) *around {
	f := e.notebooks.Foresee(ctx)
	return &around{f, budgetsOf(ctx, e.Cluster), idleOwners(f.Notebooks, now)}
}

// nameUsers reads the users of the holders that are shown.
func (e *explainer) nameUsers(ctx context.Context, holders []explain.Held, pods []*v1.Pod) {
	if !e.whole {
		holders = holders[:min(len(holders), whyHolders)]
	}
	at := map[types.NamespacedName][]*devices.Holder{}
	for i := range holders {
		h := &holders[i].Oldest
		key := types.NamespacedName{Namespace: h.Namespace, Name: h.Pod}
		at[key] = append(at[key], h)
	}
	shown := slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool {
		return at[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] == nil
	})
	e.NameUsers(ctx, shown)
	for _, p := range shown {
		for _, h := range at[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] {
			h.User = request.User(p)
		}
	}
}

// rules reads what beside nodes and pods decides whether the pod of s starts, as far as it
// may be read: PriorityClasses, quotas, and pools that nothing makes grow.
func (e *explainer) rules(ctx context.Context, s *explain.Situation) {
	if list, err := e.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{ResourceVersion: "0"}); err == nil {
		s.Priorities = list.Items
	}
	if list, err := e.CoreV1().ResourceQuotas(s.Pod.Namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"}); err == nil {
		s.Quotas = list.Items
	}
	if len(request.Of(s.Pod)) > 0 {
		e.queues(ctx, s)
	}
	if g := e.growing(ctx, s); g != nil && !e.autoscaled(ctx) {
		s.Pool = g.Name + ", which " + g.String() + ","
	}
}

// queues reads the Queues, and what quotas say of the pod of s, as far as that may be read.
func (e *explainer) queues(ctx context.Context, s *explain.Situation) {
	list, _, err := e.Cluster.Queues(ctx, e.o)
	if err != nil || len(list) == 0 {
		return
	}
	s.Evicted = e.evicted(ctx, list, s.Pod)
	if len(s.Nodes) == 0 {
		return
	}
	if from, err := e.QueueSituation(ctx, e.o, list, s.Nodes, s.Pods); err == nil { // without the rights, the condition says it
		s.Queues = queues.Read(from)
	}
}

// enters notes if the pod names a queue that it does not enter.
func (r *report) enters(s *explain.Situation) {
	if s.Queues == nil {
		return
	}
	if m := s.Queues.QueueOf(s.Pod); m.Ignored != "" {
		r.Queue = fmt.Sprintf("queue %s, as %s", m.Queue, m.Ignored)
		if m.Queue == "" {
			r.Queue = "no queue, as " + m.Ignored
		}
	}
}

// wasEvicted notes how often pods of the owner were evicted to return quota.
func (r *report) wasEvicted(s *explain.Situation, now time.Time) {
	if s.Evicted != nil {
		r.Evicted = s.Evicted.Sentence(idleFor(now.Sub(s.Evicted.Last)))
	}
}

// evicted is how often what makes such pods lost some to return quota, as the Queues say; nil is never.
func (e *explainer) evicted(ctx context.Context, list []*v1alpha1.Queue, pod *v1.Pod) (last *quota.Evicted) {
	maker := request.MakerOf(pod, func(namespace string, ref *metav1.OwnerReference) metav1.Object {
		job, err := e.BatchV1().Jobs(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return job
	})
	for _, q := range list {
		for _, was := range queues.Evicted(q) {
			if was.Owner == maker && was.Counts(e.o.Time()) && (last == nil || was.Last.After(last.Last)) {
				last = &was
			}
		}
	}
	return last
}

// dra reads what a DRA driver offers, where it is asked about: for a pod that requests GPUs.
func (e *explainer) dra(ctx context.Context, pod *v1.Pod) devices.DRA {
	if len(request.Of(pod)) == 0 {
		return devices.DRA{}
	}
	return e.DRA(ctx)
}

// growing is the pool on a new node of which the pod of s would fit, nil if there is none.
func (e *explainer) growing(ctx context.Context, s *explain.Situation) *pool.Growth {
	if e.grown == nil && len(s.Nodes) > 0 {
		e.grown = append([]pool.Growth{}, e.Growth(ctx, e.o, "", s.Nodes)...)
	}
	return pool.Start(e.grown, s.Pod, s.Volumes)
}

// autoscaled reports whether the cluster has an autoscaler, or may have one.
func (e *explainer) autoscaled(ctx context.Context) bool {
	if _, err := e.CoreV1().ConfigMaps("kube-system").Get(ctx, "cluster-autoscaler-status", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return true
	}
	groups, err := e.Discovery().ServerGroups()
	return err != nil || slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == "karpenter.sh" })
}

// The readers that helps may be for.
const (
	audienceUser  = "user"
	audienceAdmin = "admin"
)

// forOther reports whether a help is left out: it is for administrators where those for
// users are asked for, or the reverse.
func (e *explainer) forOther(admin bool) bool {
	return e.audience == audienceUser && admin || e.audience == audienceAdmin && !admin
}

// idleOwners returns for how long notebooks have been idle.
func idleOwners(list []kubeflow.Notebook, now time.Time) map[request.Owner]time.Duration {
	out := map[request.Owner]time.Duration{}
	for i := range list {
		if at, ok := notebook.IdleSince(&list[i]); ok {
			out[request.Owner{Kind: kubeflow.Kind, Namespace: list[i].Namespace, Name: list[i].Name}] = now.Sub(at)
		}
	}
	return out
}

// starts notes when a pod that waits for GPUs is likely to start.
func (r *report) starts(o *reasons.Estimate, now time.Time) {
	r.start, r.When = o, &when{Text: o.Text(now)}
	r.When.AtTheLatest, r.When.Perhaps = term.Stamp(o.AtLatest.At), term.Stamp(o.Perhaps.At)
	r.When.Likely, r.When.NineOfTenBy = term.Stamp(o.Likely.At), term.Stamp(o.Likely.By)
	if o.Ahead > 0 {
		r.When.AtTheLatest, r.When.Perhaps = "", cmp.Or(r.When.Perhaps, r.When.AtTheLatest)
	}
}

// budgetsOf lists the disruption budgets of the cluster, none if they may not be read.
func budgetsOf(ctx context.Context, c *client.Cluster) []policyv1.PodDisruptionBudget {
	list, err := c.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	return list.Items
}
