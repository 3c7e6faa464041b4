package queues

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/request"
)

// SystemClass begins the names of the PriorityClasses that Kubernetes keeps for itself. Berth gives
// these to no pod.
const SystemClass = "system-"

// DefaultClasses are the PriorityClasses of pods whose authors name none, by queue and by what
// the pods are for. Each exists, and none is one of the system.
type DefaultClasses map[string]map[request.Work]string

// NewDefaultClasses reads what Queues say of it, and what in that cannot be followed. A queue that
// names no class for a kind of work has that of the nearest queue above that does. exists reports
// whether there is a PriorityClass of a name.
func NewDefaultClasses(list []*v1alpha1.Queue, exists func(class string) bool) (DefaultClasses, []quota.Problem) {
	byName := make(map[string]*v1alpha1.Queue, len(list))
	for _, q := range list {
		byName[q.Name] = q
	}
	out := DefaultClasses{}
	var problems []quota.Problem
	for _, q := range list {
		for _, work := range []request.Work{request.WorkNotebook, request.WorkTraining, request.WorkServing} {
			own, class := classOfWork(q, work), ""
			if text := unusable(own, exists); own != "" && text != "" {
				problems = append(problems, quota.Problem{Queue: q.Name, Field: "spec.defaultPriorityClasses." + string(work), Text: text})
			}
			at := q
			for range list { // a circle of parents ends here
				if class = classOfWork(at, work); class != "" || byName[at.Spec.Parent] == nil {
					break
				}
				at = byName[at.Spec.Parent]
			}
			if class == "" || unusable(class, exists) != "" {
				continue
			}
			if out[q.Name] == nil {
				out[q.Name] = map[request.Work]string{}
			}
			out[q.Name][work] = class
		}
	}
	return out, problems
}

// classOfWork is the class that a Queue itself names for a kind of work; "" is none.
func classOfWork(q *v1alpha1.Queue, work request.Work) string {
	c := q.Spec.DefaultPriorityClasses
	switch {
	case c == nil:
		return ""
	case work == request.WorkNotebook:
		return c.Notebook
	case work == request.WorkTraining:
		return c.Training
	}
	return c.Serving
}

// unusable says why pods cannot get a class; "" is that they can.
func unusable(class string, exists func(string) bool) string {
	switch {
	case strings.HasPrefix(class, SystemClass):
		return fmt.Sprintf("%s is a PriorityClass of the system, which no pod gets by default: name one of your own", class)
	case !exists(class):
		return fmt.Sprintf("there is no PriorityClass %q: pods get none by default until there is", class)
	}
	return ""
}

// Of returns the class that a pod of a queue gets, as its author has written it; "" is none. It never
// replaces a class, a priority or a preemption policy of the author. Pods without GPUs get none, but
// for those of training jobs, of which all pods get the same.
func (d DefaultClasses) Of(pod *v1.Pod, queue string) string {
	s := &pod.Spec
	if len(d[queue]) == 0 || s.PriorityClassName != "" || s.Priority != nil || s.PreemptionPolicy != nil {
		return ""
	}
	if !request.InTrainingJob(pod) && request.Of(pod) == nil {
		return ""
	}
	return d[queue][request.WorkOf(pod)]
}
