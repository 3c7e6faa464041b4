package doctor

import (
	"slices"
	"strings"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/explain"
)

// quotas finds lines of quotas that read as if they limited GPUs,
// and that the API server never counts.
func (e *examined) quotas() []finding.Finding {
	var loose, idle []string
	for _, q := range e.Quotas {
		inert, open := explain.InertQuotaLines(q)
		name := q.Namespace + "/" + q.Name
		if len(open) > 0 {
			loose = append(loose, name+" ("+strings.Join(open, ", ")+")")
		} else if len(inert) > 0 {
			idle = append(idle, name+" ("+strings.Join(inert, ", ")+")")
		}
	}
	slices.Sort(loose)
	slices.Sort(idle)
	var out []finding.Finding
	if n := len(loose); n > 0 {
		out = append(out, warn("quotas", count(n, "quota")+verb(n, " does", " do")+" not limit GPUs, because a line counts nothing: "+few(loose),
			"write requests.NAME in its place, as in requests.nvidia.com/gpu: of GPUs Kubernetes counts nothing else"))
	}
	if n := len(idle); n > 0 {
		out = append(out, warn("quotas", count(n, "quota")+verb(n, " has", " have")+" a line that counts nothing, beside the one that does: "+few(idle),
			"take it out: a GPU's limit is its request, and Kubernetes counts requests.NAME alone"))
	}
	return out
}
