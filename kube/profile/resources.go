package profile

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	core "berth.dev/berth/core/profile"
	"berth.dev/berth/kube/request"
)

// resources sets requests and limits. What is 0 is not set, as in kubespawner. A
// request above its limit is refused here: as a pod it would be refused where
// nobody sees it.
func (m *maker) resources() error {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, each := range []struct {
		setting string
		name    corev1.ResourceName
		to      corev1.ResourceList
	}{
		{"cpu_guarantee", corev1.ResourceCPU, requests},
		{"mem_guarantee", corev1.ResourceMemory, requests},
		{"cpu_limit", corev1.ResourceCPU, limits},
		{"mem_limit", corev1.ResourceMemory, limits},
	} {
		amount, text, err := m.amount(each.setting, each.name)
		if err != nil {
			return err
		}
		if amount.Sign() > 0 {
			each.to[each.name] = amount
			m.env[strings.ToUpper(each.setting)] = text
		}
	}
	for _, each := range []struct {
		setting string
		to      corev1.ResourceList
	}{{"extra_resource_guarantees", requests}, {"extra_resource_limits", limits}} {
		if err := m.extraAmounts(each.setting, each.to); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if err := m.agree(name, requests, limits); err != nil {
			return err
		}
	}
	m.main.Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
	return nil
}

// amount reads cores or a size, and how JupyterHub tells the notebook of it.
func (m *maker) amount(setting string, name corev1.ResourceName) (resource.Quantity, string, error) {
	if name == corev1.ResourceMemory {
		v := m.set.Values[setting]
		if v == nil {
			return resource.Quantity{}, "", nil
		}
		n, err := core.Bytes(v)
		if err != nil {
			return resource.Quantity{}, "", m.fail(setting, "%w", err)
		}
		return *resource.NewQuantity(n, resource.DecimalSI), strconv.FormatInt(n, 10), nil
	}
	n, ok, err := m.number(setting)
	if err != nil || !ok {
		return resource.Quantity{}, "", err
	}
	text := strconv.FormatFloat(n, 'f', -1, 64)
	q, err := resource.ParseQuantity(text)
	if err != nil || n < 0 {
		return resource.Quantity{}, "", m.fail(setting, "%s is not a number of CPUs", text)
	}
	if !strings.Contains(text, ".") {
		text += ".0" // as Python writes it
	}
	return q, text, nil
}

// extraAmounts reads resources by name into out.
func (m *maker) extraAmounts(setting string, out corev1.ResourceList) error {
	v := m.set.Values[setting]
	if v == nil {
		return nil
	}
	list, ok := v.(map[string]any)
	if !ok {
		return m.fail(setting, "it must be a mapping of resources, such as nvidia.com/gpu: \"1\"")
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		var q resource.Quantity
		var err error
		switch n := list[name].(type) {
		case string:
			q, err = resource.ParseQuantity(n)
		case int64:
			q = *resource.NewQuantity(n, resource.DecimalSI)
		case float64:
			q, err = resource.ParseQuantity(strconv.FormatFloat(n, 'f', -1, 64))
		default:
			return m.failIn(setting, name, "%v is not an amount", n)
		}
		switch {
		case err != nil:
			return m.failIn(setting, name, "%v is not an amount: %w", list[name], err)
		case q.Sign() < 0:
			return m.failIn(setting, name, "%v is below 0", list[name])
		case request.IsGPU(name) && q.CmpInt64(request.MostAsked) > 0:
			return m.failIn(setting, name, "%v is more than any cluster has; write at most %d", list[name], request.MostAsked)
		case request.IsGPU(name) && q.MilliValue()%1000 != 0:
			return m.failIn(setting, name, "%v is not a whole number; ask for a part of a GPU with nvidia.com/gpu-memory", list[name])
		}
		out[corev1.ResourceName(name)] = q
	}
	return nil
}

// agree refuses a request that its limit does not allow. Of resources that are no
// part of Kubernetes itself, such as GPUs, the limit must be there and be equal.
func (m *maker) agree(name corev1.ResourceName, requests, limits corev1.ResourceList) error {
	request := requests[name]
	limit, limited := limits[name]
	setting := map[corev1.ResourceName]string{corev1.ResourceCPU: "cpu_guarantee", corev1.ResourceMemory: "mem_guarantee"}[name]
	switch {
	case setting != "" && limited && request.Cmp(limit) > 0:
		return m.fail(setting, "the guarantee %s is above the limit %s (%s); lower one or raise the other", request.String(), limit.String(), m.set.From[strings.Replace(setting, "guarantee", "limit", 1)])
	case setting != "" || !extended(name):
		return nil
	case !limited:
		return m.failIn("extra_resource_guarantees", string(name), "it is only guaranteed: Kubernetes wants it as a limit; write it under extra_resource_limits")
	case request.Cmp(limit) != 0:
		return m.failIn("extra_resource_guarantees", string(name), "guarantee %s and limit %s must be equal; leave out the guarantee", request.String(), limit.String())
	}
	return nil
}

// extended reports whether a resource is one that a device plugin offers.
func extended(name corev1.ResourceName) bool {
	domain, _, qualified := strings.Cut(string(name), "/")
	return qualified && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") && !strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// gpus is how many GPUs or parts of GPUs the notebook asks for, of all kinds.
func (m *maker) gpus() int64 {
	n := int64(0)
	for i := range m.pod.Containers {
		for name, q := range m.pod.Containers[i].Resources.Limits {
			if request.IsGPU(string(name)) {
				n += request.Amount(&q, request.MostAsked)
			}
		}
	}
	return n
}
