package profile

import (
	corev1 "k8s.io/api/core/v1"
)

// placing sets what says on which nodes the pod may be, and when.
func (m *maker) placing() error {
	if err := m.into("node_selector", 0, &m.pod.NodeSelector); err != nil {
		return err
	}
	if len(m.pod.NodeSelector) == 0 {
		m.pod.NodeSelector = nil
	}
	if err := m.list("tolerations", 0, &m.pod.Tolerations); err != nil {
		return err
	}
	if err := m.affinity(); err != nil {
		return err
	}
	for _, each := range []struct {
		setting string
		to      *string
	}{{"priority_class_name", &m.pod.PriorityClassName}, {"scheduler_name", &m.pod.SchedulerName}} {
		var err error
		if *each.to, err = m.text(each.setting); err != nil {
			return err
		}
	}
	return nil
}

// affinity reads the six lists of affinity terms.
func (m *maker) affinity() error {
	var node corev1.NodeAffinity
	var pod corev1.PodAffinity
	var anti corev1.PodAntiAffinity
	var terms []corev1.NodeSelectorTerm
	for _, each := range []struct {
		setting string
		to      any
	}{
		{"node_affinity_required", &terms},
		{"node_affinity_preferred", &node.PreferredDuringSchedulingIgnoredDuringExecution},
		{"pod_affinity_required", &pod.RequiredDuringSchedulingIgnoredDuringExecution},
		{"pod_affinity_preferred", &pod.PreferredDuringSchedulingIgnoredDuringExecution},
		{"pod_anti_affinity_required", &anti.RequiredDuringSchedulingIgnoredDuringExecution},
		{"pod_anti_affinity_preferred", &anti.PreferredDuringSchedulingIgnoredDuringExecution},
	} {
		if err := m.list(each.setting, 0, each.to); err != nil {
			return err
		}
	}
	if len(terms) > 0 {
		node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
	}
	all := corev1.Affinity{}
	if len(terms)+len(node.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		all.NodeAffinity = &node
	}
	if len(pod.RequiredDuringSchedulingIgnoredDuringExecution)+len(pod.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		all.PodAffinity = &pod
	}
	if len(anti.RequiredDuringSchedulingIgnoredDuringExecution)+len(anti.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		all.PodAntiAffinity = &anti
	}
	if all != (corev1.Affinity{}) {
		m.pod.Affinity = &all
	}
	return nil
}
