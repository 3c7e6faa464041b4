package explain

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/request"
)

// QuotaRoom returns the first quota of a namespace that would not let a pod be created in
// the place of another that it counts now, and nil if all would. It looks at requests and
// limits. Quotas with a scope are omitted, as they may not be for either of the two.
func QuotaRoom(quotas []v1.ResourceQuota, pod, instead *v1.Pod) *reasons.QuotaShortage {
	want, had := charged(pod), charged(instead)
	for i := range quotas {
		q := &quotas[i]
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			continue
		}
		if short := shortage(q, want, had); short != nil {
			return short
		}
	}
	return nil
}

// Charge has quotas count one more pod, as QuotaRoom reads them: status.used of those without a scope is changed.
func Charge(quotas []v1.ResourceQuota, pod *v1.Pod) {
	want := charged(pod)
	want["pods"], want["count/pods"] = *resource.NewQuantity(1, resource.DecimalSI), *resource.NewQuantity(1, resource.DecimalSI)
	for i := range quotas {
		q := &quotas[i]
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			continue
		}
		for name := range q.Status.Hard {
			if more, counts := want[string(name)]; counts {
				if q.Status.Used == nil {
					q.Status.Used = v1.ResourceList{}
				}
				q.Status.Used[name] = added(q.Status.Used[name], more)
			}
		}
	}
}

// shortage is the first resource of a quota, by name, that does not allow want in the place
// of had; nil is that all do.
func shortage(q *v1.ResourceQuota, want, had map[string]resource.Quantity) *reasons.QuotaShortage {
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		hard, used, more := q.Status.Hard[name], q.Status.Used[name], want[string(name)].DeepCopy()
		more.Sub(had[string(name)])
		sum := used.DeepCopy()
		if sum.Add(more); more.Sign() > 0 && sum.Cmp(hard) > 0 {
			return &reasons.QuotaShortage{Quota: q.Name, Resource: string(name), Hard: hard.String(), Used: used.String(), More: more.String()}
		}
	}
	return nil
}

// InertQuotaLines names the lines of a quota that the API server accepts and never
// counts, sorted: of an extended resource, such as a GPU, it counts
// "requests.NAME" alone, and neither "limits.NAME" nor the bare name. Of them,
// loose are those of GPUs that no other line of the quota holds anybody to.
//
// Source: isExtendedResourceNameForQuota of Kubernetes' quota evaluator.
func InertQuotaLines(q *v1.ResourceQuota) (inert, loose []string) {
	for line := range q.Spec.Hard {
		name := strings.TrimPrefix(string(line), "limits.")
		if strings.HasPrefix(name, "requests.") || !request.IsGPU(name) {
			continue
		}
		inert = append(inert, string(line))
		if _, counted := q.Spec.Hard[v1.ResourceName("requests."+name)]; !counted {
			loose = append(loose, string(line))
		}
	}
	slices.Sort(inert)
	slices.Sort(loose)
	return inert, loose
}

// GPUDefault is a line of a LimitRange by which every container of its namespace that says nothing of GPUs gets some.
type GPUDefault struct {
	Item     int    // of spec.limits
	Field    string // default or max: Kubernetes makes a maximum the default where there is none
	Resource string
	Amount   string
}

// GPUDefaults returns those of a LimitRange, in the order of its items and, in each, by resource.
//
// Source: SetDefaults_LimitRangeItem of Kubernetes.
func GPUDefaults(l *v1.LimitRange) (out []GPUDefault) {
	for i, item := range l.Spec.Limits {
		if item.Type != v1.LimitTypeContainer {
			continue
		}
		for _, part := range []struct {
			name string
			list v1.ResourceList
		}{{"default", item.Default}, {"max", item.Max}} {
			for _, name := range slices.Sorted(maps.Keys(part.list)) {
				q := part.list[name]
				_, said := item.Default[name]
				if !request.IsGPU(string(name)) || q.Sign() == 0 || part.name == "max" && said {
					continue
				}
				out = append(out, GPUDefault{i, part.name, string(name), q.String()})
			}
		}
	}
	return out
}

// charged is what a quota counts for a pod, under the names that quotas have for
// it: "requests.nvidia.com/gpu", "limits.cpu", "memory".
func charged(pod *v1.Pod) map[string]resource.Quantity {
	out := map[string]resource.Quantity{}
	add := func(prefix string, pick func(*v1.Container) v1.ResourceList) {
		sum, most := v1.ResourceList{}, v1.ResourceList{}
		for i := range pod.Spec.InitContainers {
			c := &pod.Spec.InitContainers[i]
			for name, n := range pick(c) {
				if request.IsSidecar(c) {
					sum[name] = added(sum[name], n)
				} else if n = added(sum[name], n); n.Cmp(most[name]) > 0 {
					most[name] = n
				}
			}
		}
		for i := range pod.Spec.Containers {
			for name, n := range pick(&pod.Spec.Containers[i]) {
				sum[name] = added(sum[name], n)
			}
		}
		for name, n := range most {
			if n.Cmp(sum[name]) > 0 {
				sum[name] = n
			}
		}
		for name, n := range sum {
			if out[prefix+string(name)] = n; prefix == "requests." && !strings.Contains(string(name), "/") {
				out[string(name)] = n
			}
		}
	}
	add("requests.", asked)
	add("limits.", func(c *v1.Container) v1.ResourceList { return c.Resources.Limits })
	return out
}

// asked is a container's requests, with its limits where it has no request, as the
// API server fills them in.
func asked(c *v1.Container) v1.ResourceList {
	out := c.Resources.Limits.DeepCopy()
	if out == nil {
		out = v1.ResourceList{}
	}
	maps.Copy(out, c.Resources.Requests)
	return out
}

func added(a, b resource.Quantity) resource.Quantity {
	a = a.DeepCopy()
	a.Add(b)
	return a
}
