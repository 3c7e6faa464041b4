package queueimport

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
)

var whyNotKAI = map[string]string{
	"spec.displayName":             "a Queue is shown by its name",
	"spec.priority":                "queues take turns by what they borrow for their weight; give its pods a PriorityClass",
	"spec.preemptMinRuntime":       "in one queue, priority alone decides which pod evicts another",
	"spec.resources.cpu":           "Queues count GPUs only",
	"spec.resources.memory":        "Queues count GPUs only",
	"spec.resources.gpu.preferred": "Queues have nothing like it",
}

// kai makes a Queue of each Queue of KAI.
func (m *importer) kai() error {
	parents := m.parents(kaiQueue, "parentQueue")
	for _, o := range m.objects[kaiQueue] {
		q, err := m.queue(o.GetName(), o.String())
		if err != nil {
			return err
		}
		q.Spec.Parent = o.text("spec", "parentQueue")
		q.Spec.MinRunTime = o.text("spec", "reclaimMinRuntime")
		var n [3]*resource.Quantity
		for i, field := range []string{"quota", "limit", "overQuotaWeight"} {
			if n[i], err = o.amount("spec", "resources", "gpu", field); err != nil {
				return err
			}
		}
		nominal, limit, weight := n[0], n[1], n[2]
		switch {
		case nominal == nil && limit == nil:
		case nominal != nil && nominal.Sign() < 0:
			o.note("spec.resources.gpu.quota", "not carried over: it is unlimited, as a Queue without quotas")
		default:
			one := v1alpha1.QueueQuota{GPUs: v1alpha1.GPUsAll}
			if nominal != nil {
				one.Nominal = *nominal
			}
			one.BorrowingLimit = beyond(limit, &one.Nominal)
			q.Spec.Quotas = append(q.Spec.Quotas, one)
		}
		weightOf(o, q, "spec.resources.gpu.overQuotaWeight", weight)
		if !parents[o.GetName()] {
			byLabel(o, q, "kai.scheduler/queue")
		}
		o.rest(whyNotKAI)
	}
	return nil
}

// parents are the names of queues of a kind that others have in a field of their spec.
func (m *importer) parents(kind schema.GroupKind, field string) map[string]bool {
	out := map[string]bool{}
	for _, o := range m.objects[kind] {
		out[o.text("spec", field)] = true
	}
	return out
}

// byLabel lets pods of all namespaces enter a Queue by its label, as they do another scheduler's queue by its own.
func byLabel(o *object, q *v1alpha1.Queue, theirs string) {
	q.Spec.Namespaces = &v1alpha1.QueueNamespaces{LabeledPods: []string{"*"}}
	o.note("", "pods of all namespaces enter by %s as before, or by the label %s: write spec.namespaces if whole namespaces are to enter", theirs, api.LabelQueue)
}

// beyond is what a limit leaves beyond the nominal quota; nil is that there is no limit.
func beyond(limit, nominal *resource.Quantity) *resource.Quantity {
	if limit == nil || limit.Sign() < 0 {
		return nil
	}
	left := limit.DeepCopy()
	if left.Sub(*nominal); left.Sign() < 0 {
		left = resource.Quantity{}
	}
	return &left
}

// weightOf carries a weight over.
func weightOf(o *object, q *v1alpha1.Queue, field string, weight *resource.Quantity) {
	if weight == nil {
		return
	}
	n := weight.Value()
	if weight.MilliValue() != 1000*n || n <= 0 || n >= 1<<31 {
		o.note(field, "not carried over: a weight is a whole number above 0, and this is %s", weight)
		return
	}
	small := int32(n)
	q.Spec.Weight = &small
}

var whyNotVolcano = map[string]string{
	"spec.reclaimable":     "what is borrowed is always returned; spec.quotas with lendingLimit: 0 lends nothing",
	"spec.priority":        "queues take turns by what they borrow for their weight; give its pods a PriorityClass",
	"spec.extendClusters":  "Queues are of one cluster",
	"spec.affinity":        "write a quota for the label of the nodes, as pool=a",
	"spec.dequeueStrategy": "smaller workloads start while a larger one waits",
	"spec.type":            "Queues have no types",
}

// volcano makes a Queue of each Queue of Volcano. Its nominal quota is spec.deserved, or else spec.guarantee.
func (m *importer) volcano() error {
	parents := m.parents(volcanoQueue, "parent")
	for _, o := range m.objects[volcanoQueue] {
		if o.GetName() == "root" {
			o.note("", "not carried over: it is above all others, as the cluster is")
			continue
		}
		q, err := m.queue(o.GetName(), o.String())
		if err != nil {
			return err
		}
		if q.Spec.Parent = o.text("spec", "parent"); q.Spec.Parent == "root" {
			q.Spec.Parent = ""
		}
		var n [3]*resource.Quantity
		for i, path := range [][]string{{"spec", "deserved"}, {"spec", "guarantee", "resource"}, {"spec", "capability"}} {
			if n[i], err = o.amount(append(path, api.ResourceGPU)...); err != nil {
				return err
			}
		}
		deserved, guaranteed, most := n[0], n[1], n[2]
		if deserved != nil || guaranteed != nil || most != nil {
			one := v1alpha1.QueueQuota{GPUs: v1alpha1.GPUsAll}
			switch {
			case deserved != nil:
				one.Nominal = *deserved
				if guaranteed != nil {
					one.LendingLimit = beyond(deserved, guaranteed)
				}
			case guaranteed != nil:
				one.Nominal, one.LendingLimit = *guaranteed, &resource.Quantity{}
			default:
				o.note("spec.capability", "its nominal quota is 0, as it has neither spec.deserved nor spec.guarantee: it borrows up to %s", most)
			}
			one.BorrowingLimit = beyond(most, &one.Nominal)
			q.Spec.Quotas = append(q.Spec.Quotas, one)
		}
		weight, err := o.amount("spec", "weight")
		if err != nil {
			return err
		}
		weightOf(o, q, "spec.weight", weight)
		if state := o.text("spec", "state"); strings.EqualFold(state, "closed") {
			q.Spec.Stop = v1alpha1.StopHold
		}
		if !parents[o.GetName()] {
			byLabel(o, q, "scheduling.volcano.sh/queue-name")
		}
		o.rest(whyNotVolcano)
	}
	return nil
}

// quotas makes a Queue of each ResourceQuota of GPUs, named as its namespace. Without a parent it
// borrows nothing.
func (m *importer) quotas() error {
	for _, o := range m.objects[resourceQuota] {
		hard, _ := o.get("spec", "hard").(map[string]any)
		var list []v1alpha1.QueueQuota
		for name, v := range hard {
			gpus := ""
			switch what := strings.TrimPrefix(name, "requests."); {
			case what == api.ResourceGPU:
				gpus = v1alpha1.GPUsAll
			case strings.HasPrefix(what, "nvidia.com/mig-"):
				gpus = v1alpha1.GPUsMIGPrefix + strings.TrimPrefix(what, "nvidia.com/mig-")
			default:
				continue
			}
			n, err := o.parse("spec.hard: "+name, v)
			if err != nil {
				return err
			}
			list = append(list, v1alpha1.QueueQuota{GPUs: gpus, Nominal: *n})
		}
		if len(list) == 0 {
			o.note("", "no GPUs are in its quota")
			continue
		}
		if o.GetNamespace() == "" {
			return fmt.Errorf("%s: it has no metadata.namespace, and its Queue would be of that namespace", o)
		}
		q, err := m.queue(o.GetNamespace(), o.String())
		if err != nil {
			return err
		}
		slices.SortFunc(list, func(a, b v1alpha1.QueueQuota) int { return strings.Compare(a.GPUs, b.GPUs) })
		q.Spec.Quotas, q.Spec.Namespaces = list, &v1alpha1.QueueNamespaces{Names: []string{o.GetNamespace()}}
		o.note("spec.hard", "pods beyond it will wait instead of being refused: remove its lines of GPUs when the Queue is there; Queues count nothing else")
		o.rest(map[string]string{"spec.scopes": "all pods of the namespace count", "spec.scopeSelector": "all pods of the namespace count"})
	}
	return nil
}
