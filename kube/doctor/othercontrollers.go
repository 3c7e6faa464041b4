package doctor

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"berth.dev/berth/internal/finding"
)

// operator says which of the GPU Operator's parts are there, however they were installed.
func (e *examined) operator() finding.Finding {
	const name = "gpu-operator"
	there := e.ClusterPolicy || slices.ContainsFunc(e.Deployments, func(d *appsv1.Deployment) bool { return d.Labels["app"] == "gpu-operator" })
	var have, lack []string
	for _, r := range operatorRoles {
		parts := e.of(r)
		if len(parts) == 0 {
			lack = append(lack, string(r))
			continue
		}
		text := string(r)
		if l := late(parts); len(l) > 0 {
			text += fmt.Sprintf(" (%s: %d of %d ready)", l[0].name(), l[0].ready(), l[0].wanted())
		}
		have = append(have, text)
	}
	seen := "it is not here, and nothing needs it"
	switch {
	case there && len(have) == 0:
		seen = "it is here, and none of its parts is seen"
	case there && len(lack) == 0:
		seen = fmt.Sprintf("it is here with its %d parts: %s", len(have), strings.Join(have, ", "))
	case there:
		seen = fmt.Sprintf("it is here with %d of its %d parts: %s; without %s", len(have), len(operatorRoles), strings.Join(have, ", "), strings.Join(lack, ", "))
	case len(have) > 0:
		seen += fmt.Sprintf("; others bring %d of its %d parts: %s", len(have), len(operatorRoles), strings.Join(have, ", "))
	}
	if slices.ContainsFunc(e.of(plugin), func(p *part) bool { return p.value == agentLabel }) {
		seen += "; Berth's agent is exporter and feature discovery, too, and needs of the container toolkit its hook alone"
	}
	return ok(name, "%s", seen)
}

// neighbors are others that schedule GPUs or run notebooks, jobs and models, each
// with a part of the name of its image.
var neighbors = []struct{ image, who string }{
	{"notebook-controller", "Kubeflow's notebook controller (Berth's stands aside)"},
	{"training-operator", "Kubeflow's training operator"},
	{"trainer-controller-manager", "Kubeflow Trainer"},
	{"kserve-controller", "KServe"},
	{"k8s-hub", "JupyterHub"},
	{"kueue", "Kueue"},
	{"vc-scheduler", "Volcano"},
	{"kai-scheduler", "KAI"},
	{"hami", "HAMi"},
	{"yunikorn", "YuniKorn"},
	{"runai", "Run:ai"},
}

// otherControllers names the other GPU controllers and schedulers of the cluster, in one line.
func (e *examined) otherControllers() finding.Finding {
	const name = "beside"
	var out []string
	for _, n := range neighbors {
		var sets []string
		for _, d := range e.Deployments {
			if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
				continue
			}
			for _, c := range d.Spec.Template.Spec.Containers {
				if strings.Contains(strings.ToLower(c.Image), n.image) {
					sets = append(sets, d.Namespace+"/"+d.Name)
					break
				}
			}
		}
		if len(sets) > 0 {
			slices.Sort(sets)
			out = append(out, n.who+": "+few(sets))
		}
	}
	for _, p := range e.of(dra) {
		out = append(out, "NVIDIA's DRA driver: "+p.name())
	}
	if len(out) == 0 {
		return ok(name, "no other scheduler of GPUs and no other controller of notebooks that is known")
	}
	return ok(name, "%s", strings.Join(out, "; "))
}
