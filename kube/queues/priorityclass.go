package queues

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"berth.dev/berth/api/v1alpha1"
)

// PriorityClasses are those of a cluster, and which of them pods get that name none.
type PriorityClasses struct {
	List []schedulingv1.PriorityClass
	// Default returns the class that a pod gets from its queue, as DefaultClasses.Of does; nil is that
	// queues have none.
	Default func(*v1.Pod) string
}

// NewPriorityClasses returns the classes of a cluster with some Queues and namespaces.
func NewPriorityClasses(list []schedulingv1.PriorityClass, all []*v1alpha1.Queue, namespaces []*v1.Namespace) *PriorityClasses {
	c := &PriorityClasses{List: list}
	defaults, _ := NewDefaultClasses(all, c.has)
	members, byName := NewMembers(all), map[string]*v1.Namespace{}
	for _, ns := range namespaces {
		byName[ns.Name] = ns
	}
	c.Default = func(pod *v1.Pod) string { return defaults.Of(pod, members.QueueOf(pod, byName[pod.Namespace])) }
	return c
}

// has reports whether there is a class of a name.
func (c *PriorityClasses) has(name string) bool {
	return slices.ContainsFunc(c.List, func(class schedulingv1.PriorityClass) bool { return class.Name == name })
}

// of is the PriorityClass that a pod gets, as it is created; nil is none.
func (c *PriorityClasses) of(pod *v1.Pod) *schedulingv1.PriorityClass {
	if c == nil {
		return nil
	}
	name := pod.Spec.PriorityClassName
	if name == "" && c.Default != nil {
		name = c.Default(pod)
	}
	var usual *schedulingv1.PriorityClass
	for i := range c.List {
		class := &c.List[i]
		if class.Name == name {
			return class
		}
		if pod.Spec.PriorityClassName == "" && class.GlobalDefault && (usual == nil || class.Value < usual.Value) {
			usual = class
		}
	}
	return usual
}
