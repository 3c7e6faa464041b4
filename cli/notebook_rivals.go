package cli

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

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/pool"
	"berth.dev/berth/kube/request"
)

// rivals fills in who holds what a notebook waits for, and what would help.
func (n *notebooks) rivals(ctx context.Context, nb *kubeflow.Notebook, pod *v1.Pod, r *whyReport) error {
	nodes, pods, err := n.cluster.list(ctx, "")
	if err != nil {
		if apierrors.IsForbidden(err) {
			r.When = &whyWhen{Text: "unknown: you may not see who holds these GPUs"}
			r.Hidden = "you may not list nodes or the pods of all namespaces; an administrator sees holders with `" + n.program() + " gpus`"
			return nil
		}
		return err
	}
	others, err := n.list(ctx, true, "")
	if err != nil {
		others = nil // who is idle is not told then
	}
	own := func(p *v1.Pod) bool { return p.Namespace == nb.Namespace && p.Name == nb.Name+"-0" }
	if i := slices.IndexFunc(pods, own); pod == nil && i >= 0 {
		pod = pods[i]
	}
	wants := podOfNotebook(nb)
	if pod != nil && pod.Spec.NodeName == "" {
		wants = pod
	}
	// What the notebook itself holds is no hindrance: its pod ends before the new one.
	pods = slices.DeleteFunc(pods, own)
	return n.tried(r, wants, &scene{nodes: nodes, pods: pods, notebooks: others, ties: n.ties(ctx, wants), budgets: n.budgets(ctx), pools: n.growth(ctx, n.o, "", nodes), deadlines: n.deadlines(ctx)})
}

// scene is the cluster around a pod that waits, as far as it could be read.
type scene struct {
	nodes     []*v1.Node
	pods      []*v1.Pod
	notebooks []kubeflow.Notebook
	ties      []explain.VolumeTopology
	budgets   []policyv1.PodDisruptionBudget
	pools     []pool.Growth
	deadlines map[request.Owner]time.Time // of Jobs
}

// ties reads what ties a pod to nodes by its volumes. What may not be read ties it to
// nothing.
func (n *notebooks) ties(ctx context.Context, pod *v1.Pod) []explain.VolumeTopology {
	var claims []*v1.PersistentVolumeClaim
	var volumes []*v1.PersistentVolume
	for _, name := range explain.ClaimsOf(pod) {
		c, err := n.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil || c.Spec.VolumeName == "" {
			continue
		}
		claims = append(claims, c)
		if v, err := n.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{}); err == nil {
			volumes = append(volumes, v)
		}
	}
	return explain.VolumeTopologies(pod, claims, volumes)
}

// budgets lists the disruption budgets of the cluster, none if they may not be read.
func (n *notebooks) budgets(ctx context.Context) []policyv1.PodDisruptionBudget {
	list, err := n.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	return list.Items
}

// deadlines are the times at which Jobs end by their activeDeadlineSeconds, as far as
// Jobs may be read.
func (n *notebooks) deadlines(ctx context.Context) map[request.Owner]time.Time {
	list, err := n.BatchV1().Jobs("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	out := map[request.Owner]time.Time{}
	for i := range list.Items {
		j := &list.Items[i]
		if s := j.Spec.ActiveDeadlineSeconds; s != nil && j.Status.StartTime != nil {
			out[request.Owner{Kind: "Job", Namespace: j.Namespace, Name: j.Name}] = j.Status.StartTime.Add(time.Duration(*s) * time.Second)
		}
	}
	return out
}

// prospects lists when a notebook that waits can start and what would help it, as far
// as this user may know.
func (n *notebooks) prospects(ctx context.Context, nb *kubeflow.Notebook) []string {
	var r whyReport
	if err := n.rivals(ctx, nb, nil, &r); err != nil {
		return nil // a courtesy: what it waits for is told without
	}
	var out []string
	if r.When != nil {
		out = append(out, "when: "+r.When.Text)
	}
	for _, help := range r.Helps {
		out = append(out, "would help: "+help)
	}
	return out
}

// opening notes when there is room for a pod that waits for GPUs.
func (r *whyReport) opening(o *reasons.Estimate, now time.Time) {
	r.When = &whyWhen{Text: o.Text(now)}
	at := func(b *reasons.TimeBound) string {
		if b.At.IsZero() {
			return ""
		}
		return b.At.UTC().Format(time.RFC3339)
	}
	r.When.AtTheLatest, r.When.Perhaps = at(&o.AtLatest), at(&o.Perhaps)
	if o.Ahead > 0 {
		r.When.AtTheLatest, r.When.Perhaps = "", cmp.Or(r.When.Perhaps, r.When.AtTheLatest)
	}
}

// stops are the times at which notebooks are to be stopped for being idle.
func stops(list []kubeflow.Notebook) map[request.Owner]time.Time {
	out := map[request.Owner]time.Time{}
	for i := range list {
		if at, ok := noteTime(&list[i], api.AnnotationNotebookStopsAt); ok && state(&list[i]) != reasons.Stopped {
			out[request.Owner{Kind: kubeflow.Kind, Namespace: list[i].Namespace, Name: list[i].Name}] = at
		}
	}
	return out
}

// tried tells holders, obstacles and helps from a cluster as it is.
func (n *notebooks) tried(r *whyReport, wants *v1.Pod, s *scene) error {
	trial, err := explain.NewCluster(s.nodes, s.pods)
	if err != nil {
		return fmt.Errorf("look for room for %s/%s: %w", r.Namespace, r.Name, err)
	}
	trial.SetVolumes(s.ties)
	if len(request.Of(wants)) > 0 {
		now := n.o.now()
		o := trial.StartEstimate(wants, s.pods, explain.Ends{Idle: stops(s.notebooks), Deadline: s.deadlines}, now)
		r.opening(&o, now)
	}
	r.Obstacles, r.Scattered = trial.Rejections(wants), trial.Fragmented(wants)
	r.Overtaken = explain.Overtaken(wants, s.pods, s.nodes)
	idle := map[request.Owner]time.Duration{}
	for i := range s.notebooks {
		if at, ok := idleSince(&s.notebooks[i]); ok {
			idle[request.Owner{Kind: kubeflow.Kind, Namespace: s.notebooks[i].Namespace, Name: s.notebooks[i].Name}] = n.o.now().Sub(at)
		}
	}
	var candidates []request.Owner
	for _, h := range trial.InTheWay(wants) {
		o := h.Oldest.Owner
		row := whyHolder{
			Node: h.Node, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, User: h.Oldest.User, GPUs: whole(h.MilliGPU),
			Since: h.Oldest.Since.UTC().Format(time.RFC3339), since: h.Oldest.Since,
		}
		if d, ok := idle[o]; ok {
			seconds := d.Seconds()
			row.IdleSeconds = &seconds
			if d >= whyIdle && !slices.Contains(candidates, o) {
				candidates = append(candidates, o)
			}
		}
		r.Holders = append(r.Holders, row)
	}
	for _, help := range trial.Reliefs(wants) {
		r.Helps = append(r.Helps, fmt.Sprintf("%s: it then fits on %s now", help.Change, help.Node))
	}
	if g := pool.Start(s.pools, wants, s.ties); g != nil {
		r.Helps = append(r.Helps, fmt.Sprintf("let pool %s grow, which %s: it then fits on a new node of it", g.Name, g))
	}
	slices.SortStableFunc(candidates, func(a, b request.Owner) int { return cmp.Compare(idle[b], idle[a]) })
	for _, o := range candidates[:min(len(candidates), whyCandidates)] {
		without, err := explain.NewCluster(s.nodes, slices.DeleteFunc(slices.Clone(s.pods), func(p *v1.Pod) bool { return request.OwnerOf(p) == o }))
		if err != nil {
			continue
		}
		without.SetVolumes(s.ties)
		if node, ok := without.Fits(wants); ok {
			r.Helps = append(r.Helps, fmt.Sprintf("stop %s, idle for %s (`%s notebook stop %s -n %s`): it then fits on %s",
				o, idleFor(idle[o]), n.program(), o.Name, o.Namespace, node))
		}
	}
	r.Helps = append(r.Helps, trial.BlockingBudgets(wants, s.pods, s.budgets)...)
	return nil
}
