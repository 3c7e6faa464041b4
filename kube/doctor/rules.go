package doctor

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/exporter"
)

// Rule is an alert or a recorded series of a PrometheusRule.
type Rule struct {
	In   string // namespace/name of the PrometheusRule
	Name string // of the alert or series
	Expr string
}

// prometheus says which Prometheus runs beside the exporters. Its configuration is not read.
func (e *examined) prometheus() []finding.Finding {
	var found []string
	for _, p := range e.Pods {
		if exporter.RunsPrometheus(p) {
			found = append(found, p.Namespace+"/"+p.Name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	asked := "berth meter does not find it by its labels, so give it --prometheus URL"
	if len(exporter.Prometheuses(e.Pods)) > 0 {
		asked = "if it does, berth meter asks it in place of reading them"
	}
	return []finding.Finding{ok("prometheus", "Prometheus runs: %s; whether it reads the exporters, the query count(DCGM_FI_DEV_GPU_UTIL) there tells; %s", few(found), asked)}
}

// rules finds alerts on GPUs that never fire, or never end: once for each cause.
func (e *examined) rules() []finding.Finding {
	names, do := map[string][]string{}, map[string]string{}
	for _, r := range e.Rules {
		for _, p := range exporter.CheckRule(r.Expr) {
			names[p.Seen], do[p.Seen] = append(names[p.Seen], r.Name+" of "+r.In), p.Do
		}
	}
	var out []finding.Finding
	for _, seen := range sortedKeys(names) {
		list := names[seen]
		slices.Sort(list)
		out = append(out, warn("alert-rules", fmt.Sprintf("%s: %s", seen, few(slices.Compact(list))), do[seen]+": docs/metrics.md"))
	}
	return out
}

// operatorPods lists what runs in the namespace of the GPU Operator, by owner, and what is not ready there.
func (e *examined) operatorPods() []finding.Finding {
	space := e.operatorSpace()
	if space == "" {
		return nil
	}
	var all, late []string
	add := func(name string, ready, wanted int32) {
		text := fmt.Sprintf("%s %d/%d", name, ready, wanted)
		all = append(all, text)
		if ready < wanted {
			late = append(late, text+e.stuckPods(space, name))
		}
	}
	for _, d := range e.Deployments {
		if d.Namespace == space {
			wanted := int32(1)
			if d.Spec.Replicas != nil {
				wanted = *d.Spec.Replicas
			}
			add(d.Name, d.Status.ReadyReplicas, wanted)
		}
	}
	for _, d := range e.DaemonSets {
		if d.Namespace == space {
			add(d.Name, d.Status.NumberReady, d.Status.DesiredNumberScheduled)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	slices.Sort(late)
	if len(late) > 0 {
		return []finding.Finding{warn("operator-pods", fmt.Sprintf("%d of the %s of namespace %s %s not ready: %s", len(late), count(len(all), "owner"), space, verb(len(late), "is", "are"), few(late)),
			"kubectl get pods -n "+space+"; the driver is first, and all others wait for it")}
	}
	if len(all) > mostOwners {
		all = append(all[:mostOwners:mostOwners], fmt.Sprintf("and %d more", len(all)-mostOwners))
	}
	return []finding.Finding{ok("operator-pods", "ready in namespace %s: %s", space, strings.Join(all, ", "))}
}

// mostOwners is how many owners of pods are named. The GPU Operator has twelve.
const mostOwners = 16

// operatorSpace is the namespace of the GPU Operator, by its Deployment, else that of the parts it brings; "" is that it is not here.
func (e *examined) operatorSpace() string {
	for _, d := range e.Deployments {
		if d.Labels["app"] == "gpu-operator" {
			return d.Namespace
		}
	}
	for _, p := range e.parts {
		if p.who == "GPU Operator" {
			return p.set.Namespace
		}
	}
	return ""
}

// stuckPods counts why pods of an owner are not ready, by the reasons that their containers wait for.
func (e *examined) stuckPods(namespace, owner string) string {
	reasons := map[string]int{}
	for _, p := range e.Pods {
		if p.Namespace != namespace || !strings.HasPrefix(p.Name, owner+"-") || len(p.OwnerReferences) == 0 || !strings.HasPrefix(p.OwnerReferences[0].Name, owner) {
			continue
		}
		for _, s := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
			if s.State.Waiting != nil && s.State.Waiting.Reason != "" && s.State.Waiting.Reason != "PodInitializing" {
				reasons[s.State.Waiting.Reason]++
				break
			}
		}
	}
	var out []string
	for _, r := range sortedKeys(reasons) {
		out = append(out, fmt.Sprintf("%d %s", reasons[r], r))
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}
