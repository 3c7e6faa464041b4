package cli

import (
	"cmp"
	"context"
	"fmt"
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

// waits fills in why the pod of s, which has no node, waits, and what would help.
func (e *explainer) waits(ctx context.Context, r *whyReport, s *explain.Situation) error {
	notebooks, err := e.notebooks.list(ctx, true, "")
	if err != nil {
		notebooks = nil // which are idle is unknown then
	}
	now := e.o.now()
	s.Budgets, s.Ends, s.Idle = e.budgets(ctx), explain.KnownEnds{Idle: stops(notebooks), Deadline: e.deadlines(ctx)}, idleOwners(notebooks, now)
	found, err := explain.Find(s, now)
	if err != nil {
		return err
	}
	if found.Start != nil {
		r.starts(found.Start, now)
	}
	r.judged(found)
	r.Obstacles, r.Overtaken = found.Rejections, found.Overtaken.String()
	for _, h := range found.Holders {
		o := h.Oldest.Owner
		row := whyHolder{
			Node: h.Node, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, User: h.Oldest.User, GPUs: whole(h.MilliGPU),
			Since: h.Oldest.Since.UTC().Format(time.RFC3339), since: h.Oldest.Since,
		}
		if d, ok := s.Idle[o]; ok {
			seconds := d.Seconds()
			row.IdleSeconds = &seconds
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
	if g := pool.Start(e.growth(ctx, e.o, "", s.Nodes), s.Pod, s.Volumes); g != nil && !e.forOther(true) {
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
		if at, ok := idleSince(&list[i]); ok {
			out[request.Owner{Kind: kubeflow.Kind, Namespace: list[i].Namespace, Name: list[i].Name}] = now.Sub(at)
		}
	}
	return out
}

// starts notes when a pod that waits for GPUs is likely to start.
func (r *whyReport) starts(o *reasons.Estimate, now time.Time) {
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

// volumesOf reads which nodes the volumes of a pod can be used on, and which of its claims
// keep it from every node. A volume that may not be read restricts nothing.
func (c *cluster) volumesOf(ctx context.Context, pod *v1.Pod) ([]explain.VolumeTopology, []reasons.Claim) {
	var claims []*v1.PersistentVolumeClaim
	var volumes []*v1.PersistentVolume
	readable := true
	for _, name := range explain.ClaimsOf(pod) {
		claim, err := c.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			readable = readable && apierrors.IsNotFound(err)
			continue
		}
		claims = append(claims, claim)
		if claim.Spec.VolumeName == "" {
			continue
		}
		if v, err := c.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{}); err == nil {
			volumes = append(volumes, v)
		}
	}
	ties := explain.VolumeTopologies(pod, claims, volumes)
	if !readable || len(pod.Spec.Volumes) == 0 {
		return ties, nil
	}
	classes, err := c.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return ties, nil // which classes there are is unknown then
	}
	return ties, explain.BadClaims(pod, claims, classes.Items)
}

// badClaims returns what tells which claims keep a pod of a namespace, or of any if it is
// "", from every node; nil is that claims or classes may not be read.
func (c *cluster) badClaims(ctx context.Context, namespace string) func(*v1.Pod) []reasons.Claim {
	claims, err := c.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	classes, err := c.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	all := pointers(claims.Items)
	return func(p *v1.Pod) []reasons.Claim { return explain.BadClaims(p, all, classes.Items) }
}

// missingClaims are the ResourceClaims, and the templates for them, that a pod names and that
// do not exist. One that may not be read is taken to exist.
func (c *cluster) missingClaims(ctx context.Context, pod *v1.Pod) []string {
	var out []string
	for i := range pod.Spec.ResourceClaims {
		r := &pod.Spec.ResourceClaims[i]
		if name := r.ResourceClaimName; name != nil {
			if _, err := c.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, *name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				out = append(out, "ResourceClaim "+*name)
			}
		}
		if name := r.ResourceClaimTemplateName; name != nil {
			if _, err := c.ResourceV1().ResourceClaimTemplates(pod.Namespace).Get(ctx, *name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				out = append(out, "ResourceClaimTemplate "+*name)
			}
		}
	}
	return out
}

// budgets lists the disruption budgets of the cluster, none if they may not be read.
func (c *cluster) budgets(ctx context.Context) []policyv1.PodDisruptionBudget {
	list, err := c.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	return list.Items
}

// deadlines are the times at which Jobs end by their activeDeadlineSeconds, as far as
// Jobs may be read.
func (c *cluster) deadlines(ctx context.Context) map[request.Owner]time.Time {
	list, err := c.BatchV1().Jobs("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
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
