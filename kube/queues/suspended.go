package queues

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// Suspended is an object that creates pods once it is resumed, and waits for its turn in their
// place. The pods do not exist yet.
type Suspended struct {
	Object     metav1.Object
	APIVersion string
	Kind       string
	Sets       []PodSet
	// Resizes is that the object itself is changed where it starts with fewer pods; else it creates
	// all, and the others wait.
	Resizes bool
	// Problem is what in the object's annotations was ignored, as it cannot be understood; "" is
	// nothing.
	Problem string
}

// PodSet is equal pods that an object creates.
type PodSet struct {
	Pod *v1.Pod // as each of them will be
	quota.Set
}

// InTurn reports whether a suspended object is to be resumed in its turn. why is why not, if it
// has the annotation berth.dev/resume.
func InTurn(o metav1.Object) (ok bool, why string) {
	notes := o.GetAnnotations()
	value, asked := notes[api.AnnotationResume]
	switch {
	case !asked:
		return false, ""
	case value != api.ResumeInTurn:
		return false, fmt.Sprintf("the annotation %s has the value %q, and only %s is known", api.AnnotationResume, value, api.ResumeInTurn)
	case o.GetLabels()[api.LabelKueueQueue] != "":
		return false, fmt.Sprintf("Kueue resumes it, as it has the label %s", api.LabelKueueQueue)
	case notes[api.AnnotationResumed] != "":
		return false, fmt.Sprintf("someone has suspended it after it had been resumed in its turn; without the annotation %s it waits for its turn again", api.AnnotationResumed)
	}
	return true, ""
}

// JobInTurn reports whether a Job is suspended and to be resumed in its turn. why is why not, if
// it is suspended and has the annotation berth.dev/resume.
func JobInTurn(j *batchv1.Job) (ok bool, why string) {
	if j.Spec.Suspend == nil || !*j.Spec.Suspend || j.DeletionTimestamp != nil || ended(j) {
		return false, ""
	}
	ok, why = InTurn(j)
	switch by := j.Spec.ManagedBy; {
	case !ok:
	case by != nil && *by != batchv1.JobControllerName:
		return false, fmt.Sprintf("spec.managedBy is %s, so another controller resumes it", *by)
	case ParallelismOf(j) <= 0:
		return false, "spec.parallelism is 0, so it would create no pods"
	}
	return ok, why
}

// JobResumed reports whether a Job was resumed in its turn, and runs.
func JobResumed(j *batchv1.Job) bool {
	suspended := j.Spec.Suspend != nil && *j.Spec.Suspend
	return !suspended && j.Annotations[api.AnnotationResume] == api.ResumeInTurn && j.Annotations[api.AnnotationResumed] != "" &&
		j.DeletionTimestamp == nil && !ended(j) && ParallelismOf(j) > 0
}

// SuspendedJobs returns what those of Jobs wait for that are to be resumed in their turn. classes returns
// the PriorityClasses of the cluster; it is not called if there are none of them.
func SuspendedJobs(jobs []batchv1.Job, classes func() *PriorityClasses) (out []*Suspended) {
	var known *PriorityClasses
	for i := range jobs {
		if ok, _ := JobInTurn(&jobs[i]); !ok {
			continue
		}
		if out == nil {
			known = classes()
		}
		out = append(out, OfJob(&jobs[i], known))
	}
	return out
}

// ended reports whether a Job has completed or failed.
func ended(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if c.Status == v1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return true
		}
	}
	return false
}

// ParallelismOf returns how many pods a Job asks for: what spec.parallelism was before it was started
// with fewer, and at most as many as it still needs.
func ParallelismOf(j *batchv1.Job) int {
	n := 1
	if p := j.Spec.Parallelism; p != nil {
		n = int(*p)
	}
	if before, err := strconv.ParseInt(j.Annotations[api.AnnotationParallelism], 10, 32); err == nil {
		n = max(n, int(before))
	}
	if c := j.Spec.Completions; c != nil {
		n = min(n, int(*c-j.Status.Succeeded))
	}
	return n
}

// OfJob returns what a suspended Job waits for. classes are those that its pods can get; nil is none.
func OfJob(j *batchv1.Job, classes *PriorityClasses) *Suspended {
	s := &Suspended{Object: j, APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"}
	set := PodSet{Pod: s.pod(&j.Spec.Template, classes), Set: quota.Set{Count: ParallelismOf(j)}}
	if g, err := request.GangOf(set.Pod); err == nil && g != nil {
		set.Least = g.MinCount
	}
	name := api.AnnotationMinParallelism
	if _, own := j.Annotations[name]; !own {
		name = api.AnnotationKueueMinParallelism
	}
	if text, asked := j.Annotations[name]; asked {
		if n, err := strconv.ParseInt(text, 10, 32); err == nil && n > 0 {
			s.Resizes, set.Least = true, max(set.Least, int(n))
		} else {
			s.Problem = fmt.Sprintf("the annotation %s is %q, which is not a valid number of pods, and is ignored", name, text)
		}
	}
	s.Sets = []PodSet{set}
	return s
}

// pod is a pod that the object will create of a template.
func (s *Suspended) pod(from *v1.PodTemplateSpec, classes *PriorityClasses) *v1.Pod {
	o := s.Object
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), CreationTimestamp: o.GetCreationTimestamp(),
		Labels: from.Labels, Annotations: maps.Clone(from.Annotations),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: s.APIVersion, Kind: s.Kind, Name: o.GetName(), UID: o.GetUID(), Controller: new(true)}},
	}, Spec: *from.Spec.DeepCopy()}
	if stamp := request.StampOf(o); stamp.User != "" || stamp.Controller != "" {
		stamp.User, stamp.Controller = "", string(o.GetUID())
		request.SetStamp(p, stamp)
	}
	if c := classes.of(p); c != nil && p.Spec.Priority == nil {
		p.Spec.Priority = &c.Value
		p.Spec.PreemptionPolicy = cmp.Or(p.Spec.PreemptionPolicy, c.PreemptionPolicy)
	}
	return p
}

// order is the set of each pod, in the order in which the object asks for them, and how many of them
// it needs.
func (s *Suspended) order() (of []int, need int) {
	sets := make([]quota.Set, len(s.Sets))
	for k := range s.Sets {
		sets[k] = s.Sets[k].Set
	}
	return quota.Order(sets)
}

// id is the UID of a pod that does not exist yet: that of the object, and a number.
func (s *Suspended) id(i int) types.UID {
	return types.UID(string(s.Object.GetUID()) + "/" + strconv.Itoa(i))
}

// Pods returns the pods that the object will create, in the order in which it asks for them, and
// how many of them it needs. Their UIDs are the object's with a number.
func (s *Suspended) Pods() (pods []*v1.Pod, need int) {
	of, need := s.order()
	for i, k := range of {
		p := *s.Sets[k].Pod
		p.UID = s.id(i)
		pods = append(pods, &p)
	}
	return pods, need
}

// Workload returns what the object asks for, by what its pods ask for in the ways that a queue allows, which
// queues they enter, whose they are, and which priority an object has in the line, as LinePriorities.Of returns it. It
// is nil if they enter no queue.
func (s *Suspended) Workload(asked func(*v1.Pod, sharing.Ways) (quota.Pod, []quota.Kind), ways func(queue string) sharing.Ways, queueOf, userOf func(*v1.Pod) string, line func(metav1.Object) *int32) *quota.Workload {
	lead := *s.Sets[0].Pod
	lead.UID = s.id(0)
	w := &quota.Workload{
		ID: string(s.Object.GetUID()), Queue: queueOf(&lead), User: userOf(&lead), Ticket: request.TicketOf(&lead), Since: s.Object.GetCreationTimestamp().Time,
	}
	if w.Queue == "" {
		return nil
	}
	lead.OwnerReferences = nil // the object is here
	if w.Line = line(&lead); w.Line == nil {
		w.Line = line(s.Object)
	}
	asks, kinds, allowed := make([]quota.Pod, len(s.Sets)), make([][]quota.Kind, len(s.Sets)), ways(w.Queue)
	for k := range s.Sets {
		asks[k], kinds[k] = asked(s.Sets[k].Pod, allowed)
		if other := queueOf(s.Sets[k].Pod); other != w.Queue {
			w.Mixed, w.Other = true, other
		}
	}
	of, need := s.order()
	w.Need = need
	each := make([][]quota.Kind, 0, len(of))
	for i, k := range of {
		ask := asks[k]
		ask.ID, ask.Pieces = string(s.id(i)), slices.Clone(ask.Pieces)
		w.Pods, each = append(w.Pods, ask), append(each, kinds[k])
	}
	SetKinds(w, each)
	return w
}
