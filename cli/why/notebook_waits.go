package why

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/kube/explain"
)

// whyWaits fills in who holds what a notebook waits for, and what would help.
func whyWaits(ctx context.Context, n *notebook.Notebooks, nb *kubeflow.Notebook, pod *v1.Pod, r *report) error {
	nodes, pods, err := n.Cluster.Holders(ctx, "")
	if err != nil {
		if apierrors.IsForbidden(err) {
			r.When = &when{Text: "unknown: you may not see who holds these GPUs"}
			r.Hidden = "you may not list nodes or the pods of all namespaces; an administrator sees holders with `" + n.Program() + " gpus`"
			return nil
		}
		return err
	}
	own := func(p *v1.Pod) bool { return p.Namespace == nb.Namespace && p.Name == nb.Name+"-0" }
	if i := slices.IndexFunc(pods, own); pod == nil && i >= 0 {
		pod = pods[i]
	}
	wants := notebook.PodOf(nb)
	if pod != nil && pod.Spec.NodeName == "" {
		wants = pod
	}
	// What the notebook itself holds is no hindrance: its pod ends before the new one.
	pods = slices.DeleteFunc(pods, own)
	s := &explain.Situation{Pod: wants, Nodes: nodes, Pods: pods, Owners: n.Owners(ctx, n.Options)}
	s.Volumes, s.BadClaims = n.Volumes(ctx, wants)
	e := newExplainer(n)
	s.DRA = e.dra(ctx, wants)
	e.rules(ctx, s)
	r.enters(s)
	r.wasEvicted(s, n.Options.Time())
	return e.waits(ctx, r, s)
}

// Prospects lists when a notebook that waits can start and what would help it, as far
// as this user may know.
func Prospects(ctx context.Context, n *notebook.Notebooks, nb *kubeflow.Notebook) []string {
	var r report
	if err := whyWaits(ctx, n, nb, nil, &r); err != nil {
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
