package queueimport

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
)

// whyNotKueue says why fields of Kueue's objects are not carried over.
var whyNotKueue = map[string]string{
	"spec.preemption":                "nominal quota is always returned to its queue; spec.minRunTime says after how long",
	"spec.flavorFungibility":         "a workload gets the first of spec.preferredGPUs that has quota and room",
	"spec.admissionChecks":           "nothing else is asked before a workload is admitted",
	"spec.admissionChecksStrategy":   "nothing else is asked before a workload is admitted",
	"spec.admissionScope":            "usage of the past is counted where spec.fairness says so",
	"spec.nodeTaints":                "taints are those of the nodes",
	"spec.tolerations":               "pods get no tolerations: write them in the pods",
	"spec.topologyName":              "gangs name the level that they need: see berth.dev/gang-within",
	"spec.fairSharing":               "write spec.weight in the Queue of its namespaces",
	"spec.stopPolicy":                "only whole Queues can be stopped",
	"spec.namespaceSelector":         "its LocalQueues say which namespaces it takes",
	"spec.concurrentAdmissionPolicy": "a workload is tried on one kind of GPUs after the other",
}

// kueue makes a Queue of each ClusterQueue, and of each Cohort, whether or not there is an object for it.
func (m *importer) kueue() error {
	flavors := map[string]*object{}
	for _, f := range m.objects[flavor] {
		flavors[f.GetName()] = f
	}
	for _, o := range m.objects[cohort] {
		q, err := m.queue(o.GetName(), o.String())
		if err != nil {
			return err
		}
		q.Spec.Parent = cmp.Or(o.text("spec", "parentName"), o.text("spec", "parent"))
		if err := groups(o, q, flavors); err != nil {
			return err
		}
	}
	for _, o := range m.objects[clusterQueue] {
		if err := m.clusterQueue(o, flavors); err != nil {
			return err
		}
	}
	if err := m.cohorts(); err != nil {
		return err
	}
	if err := m.localQueues(); err != nil {
		return err
	}
	for _, kind := range []schema.GroupKind{cohort, clusterQueue, localQueue, flavor} {
		for _, o := range m.objects[kind] {
			o.rest(whyNotKueue)
		}
	}
	return nil
}

func (m *importer) clusterQueue(o *object, flavors map[string]*object) error {
	q, err := m.queue(o.GetName(), o.String())
	if err != nil {
		return err
	}
	q.Spec.Parent = cmp.Or(o.text("spec", "cohortName"), o.text("spec", "cohort"))
	if err := groups(o, q, flavors); err != nil {
		return err
	}
	weight, err := o.amount("spec", "fairSharing", "weight")
	if err != nil {
		return err
	}
	weightOf(o, q, "spec.fairSharing.weight", weight)
	switch stop := o.text("spec", "stopPolicy"); stop {
	case "", "None":
	case "Hold", "HoldAndDrain":
		q.Spec.Stop = v1alpha1.QueueStop(stop)
	default:
		o.note("spec.stopPolicy", "not carried over: %s is not known", stop)
	}
	if strategy := o.text("spec", "queueingStrategy"); strategy == "StrictFIFO" {
		o.note("spec.queueingStrategy", "not carried over: smaller workloads start while a larger one waits, as with BestEffortFIFO; one that waits long gets a reservation")
	}
	return nil
}

// groups reads spec.resourceGroups.
func groups(o *object, q *v1alpha1.Queue, flavors map[string]*object) error {
	others := map[string]bool{}
	for _, group := range items(o.get("spec", "resourceGroups")) {
		for _, f := range items(group["flavors"]) {
			name, _ := f["name"].(string)
			for _, r := range items(f["resources"]) {
				what, _ := r["name"].(string)
				gpus, counts := gpusOf(o, what, name, flavors)
				if !counts {
					others[what] = true
					continue
				}
				if err := addQuota(o, q, gpus, name, r); err != nil {
					return err
				}
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(others)) {
		o.note("spec.resourceGroups", "the quota of %s is not carried over: Queues count GPUs only", what)
	}
	return nil
}

// addQuota adds a quota to a Queue.
func addQuota(o *object, q *v1alpha1.Queue, gpus, flavor string, r map[string]any) error {
	one := v1alpha1.QueueQuota{GPUs: gpus}
	for field, to := range map[string]**resource.Quantity{"nominalQuota": nil, "borrowingLimit": &one.BorrowingLimit, "lendingLimit": &one.LendingLimit} {
		n, err := o.parse("spec.resourceGroups: "+field+" of "+flavor, r[field])
		switch {
		case err != nil:
			return err
		case n == nil:
		case to != nil:
			*to = n
		default:
			one.Nominal = *n
		}
	}
	if slices.ContainsFunc(q.Spec.Quotas, func(had v1alpha1.QueueQuota) bool { return had.GPUs == gpus }) {
		o.note("spec.resourceGroups", "the quota of flavor %s is not carried over: another flavor has quota for %s as well", flavor, gpus)
		return nil
	}
	q.Spec.Quotas = append(q.Spec.Quotas, one)
	if gpus != v1alpha1.GPUsAll && !strings.HasPrefix(gpus, v1alpha1.GPUsMIGPrefix) {
		q.Spec.PreferredGPUs = append(q.Spec.PreferredGPUs, gpus)
	}
	return nil
}

// gpusOf says which GPUs a resource with a flavor is; false is that it is not of GPUs.
func gpusOf(o *object, what, name string, flavors map[string]*object) (string, bool) {
	if profile, ok := strings.CutPrefix(what, "nvidia.com/mig-"); ok {
		return v1alpha1.GPUsMIGPrefix + profile, true
	}
	if what != api.ResourceGPU {
		return "", false
	}
	f := flavors[name]
	if f == nil {
		o.note("spec.resourceGroups", "flavor %s is not among the objects: its GPUs are taken to be all", name)
		return v1alpha1.GPUsAll, true
	}
	labels, _ := f.get("spec", "nodeLabels").(map[string]any)
	if product, ok := labels[api.LabelProduct].(string); ok {
		if len(labels) > 1 {
			f.note("spec.nodeLabels", "only %s is carried over: a quota is for one product or one label", api.LabelProduct)
		}
		return product, true
	}
	if len(labels) == 0 {
		return v1alpha1.GPUsAll, true
	}
	key := slices.Min(slices.Collect(maps.Keys(labels)))
	if len(labels) > 1 {
		f.note("spec.nodeLabels", "only %s is carried over: a quota is for one product or one label", key)
	}
	return fmt.Sprintf("%s=%v", key, labels[key]), true
}

// cohorts makes the Queues of cohorts. A cohort has the quotas of all its members and its own; a Queue with queues below it
// states them all.
func (m *importer) cohorts() error {
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		parent := m.queues[name].Spec.Parent
		if parent != "" && m.queues[parent] == nil {
			if _, err := m.queue(parent, "cohort/"+parent); err != nil {
				return err
			}
		}
	}
	done := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		if done[name] {
			return
		}
		done[name] = true
		q := m.queues[name]
		for _, below := range slices.Sorted(maps.Keys(m.queues)) {
			if m.queues[below].Spec.Parent != name {
				continue
			}
			add(below)
			for _, quota := range m.queues[below].Spec.Quotas {
				at := slices.IndexFunc(q.Spec.Quotas, func(had v1alpha1.QueueQuota) bool { return had.GPUs == quota.GPUs })
				if at < 0 {
					q.Spec.Quotas = append(q.Spec.Quotas, v1alpha1.QueueQuota{GPUs: quota.GPUs})
					at = len(q.Spec.Quotas) - 1
				}
				q.Spec.Quotas[at].Nominal.Add(quota.Nominal)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		add(name)
	}
	return nil
}

// localQueues adds the namespaces of LocalQueues to the Queues of their ClusterQueues.
func (m *importer) localQueues() error {
	taken := map[string]string{} // queue by namespace
	locals := slices.SortedStableFunc(slices.Values(m.objects[localQueue]), func(a, b *object) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	for _, o := range locals {
		name, ns := o.text("spec", "clusterQueue"), o.GetNamespace()
		q := m.queues[name]
		switch {
		case q == nil:
			o.note("spec.clusterQueue", "%s is not among the objects: its namespace %s is in no Queue", name, ns)
			continue
		case q.Spec.Namespaces == nil:
			q.Spec.Namespaces = &v1alpha1.QueueNamespaces{}
		}
		switch taken[ns] {
		case name:
		case "":
			taken[ns] = name
			q.Spec.Namespaces.Names = append(q.Spec.Namespaces.Names, ns)
		default:
			q.Spec.Namespaces.LabeledPods = append(q.Spec.Namespaces.LabeledPods, ns)
			if o.GetName() == name {
				o.note("spec.clusterQueue", "namespace %s is in Queue %s: pods enter this one by %s as before", ns, taken[ns], api.LabelKueueQueue)
				continue
			}
			o.note("spec.clusterQueue", "namespace %s is in Queue %s: label the pods that are to enter this one with %s: %s, as %s: %s names no Queue", ns, taken[ns], api.LabelQueue, name, api.LabelKueueQueue, o.GetName())
		}
	}
	for _, o := range m.objects[clusterQueue] {
		q := m.queues[o.GetName()]
		if q.Spec.Namespaces != nil {
			if selector, ok := o.Object["spec"].(map[string]any)["namespaceSelector"].(map[string]any); ok && len(selector) == 0 {
				o.get("spec", "namespaceSelector")
			}
			continue
		}
		selector, ok := o.get("spec", "namespaceSelector").(map[string]any)
		if !ok || len(selector) == 0 {
			o.note("", "no LocalQueue leads to it, so no namespace enters it: write spec.namespaces")
			continue
		}
		var labels metav1.LabelSelector
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(selector, &labels); err != nil {
			return fmt.Errorf("%s: spec.namespaceSelector: %w", o, err)
		}
		q.Spec.Namespaces = &v1alpha1.QueueNamespaces{Selector: &labels}
	}
	return nil
}
