package queues

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// Suspended is an object that can be suspended and creates pods once it is resumed, which do not exist yet: a
// Job, TFJob, or PyTorchJob.
type Suspended struct {
	Object     metav1.Object
	APIVersion string
	Kind       string
	Is         bool // suspended
	Over       bool // it has ended, or is being deleted
	// Left is that pods of before it was suspended are not deleted yet.
	Left bool
	Sets []PodSet
	// Creates is how many pods it creates as its spec is now: fewer than Sets have where it was started
	// with fewer.
	Creates int
	// Resizes is that the object itself is changed where it starts with fewer pods; else it creates
	// all, and the others wait.
	Resizes bool
	// Problem is what in the object's annotations was ignored, as it cannot be understood; "" is
	// nothing.
	Problem string

	never string // why it is never resumed in its turn; "" is that it may be
}

// PodSet is equal pods that an object creates.
type PodSet struct {
	Type string  // of replicas of a training job, else ""
	Pod  *v1.Pod // as each of them will be
	quota.Set
}

// AsksForTurn reports whether an object says anything about being resumed in its turn. Others need not be
// read.
func AsksForTurn(o metav1.Object) bool {
	_, asks := o.GetAnnotations()[api.AnnotationResume]
	return asks
}

// StayStopped returns the annotations to set on an object with its suspension for the scheduler not to resume it in its turn;
// nil is that none are needed.
func StayStopped(o metav1.Object, now time.Time) map[string]any {
	if !AsksForTurn(o) || o.GetAnnotations()[api.AnnotationResumed] != "" {
		return nil
	}
	return map[string]any{api.AnnotationResumed: now.UTC().Format(time.RFC3339)}
}

// InTurn reports whether an object is suspended and to be resumed in its turn. why is why not, if it
// is suspended and has the annotation berth.dev/resume.
func (s *Suspended) InTurn() (ok bool, why string) {
	notes := s.Object.GetAnnotations()
	value, asked := notes[api.AnnotationResume]
	switch {
	case !s.Is || s.Over || !asked:
		return false, ""
	case value != api.ResumeInTurn:
		return false, fmt.Sprintf("the annotation %s has the value %q, and only %s is known", api.AnnotationResume, value, api.ResumeInTurn)
	case s.Object.GetLabels()[api.LabelKueueQueue] != "":
		return false, fmt.Sprintf("Kueue resumes it, as it has the label %s", api.LabelKueueQueue)
	case notes[api.AnnotationResumed] != "":
		return false, fmt.Sprintf("someone has suspended it after it had been resumed in its turn; without the annotation %s it waits for its turn again", api.AnnotationResumed)
	}
	return s.never == "", s.never
}

// Resumed reports whether an object was resumed in its turn, and runs.
func (s *Suspended) Resumed() bool {
	notes := s.Object.GetAnnotations()
	return !s.Is && !s.Over && len(s.Sets) > 0 && s.Creates > 0 && notes[api.AnnotationResume] == api.ResumeInTurn && notes[api.AnnotationResumed] != ""
}

// Alike reports whether two states of an object wait for the same.
func (s *Suspended) Alike(as *Suspended) bool {
	a, b := s.Object, as.Object
	return a.GetGeneration() == b.GetGeneration() && s.Left == as.Left && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) && maps.Equal(a.GetLabels(), b.GetLabels()) &&
		slices.EqualFunc(s.Sets, as.Sets, func(x, y PodSet) bool { return x.Set == y.Set })
}

// InTurn returns what those of objects wait for that are to be resumed in their turn. classes returns
// the PriorityClasses of the cluster; it is not called if there are none of them.
func InTurn(objects []metav1.Object, classes func() *PriorityClasses) (out []*Suspended) {
	for _, o := range objects {
		if !AsksForTurn(o) {
			continue
		}
		s := Of(o, nil)
		if ok, _ := s.InTurn(); ok {
			out = append(out, Of(o, classes()))
		}
	}
	return out
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

// SetOf returns the number of the set that a pod of the object belongs to; -1 is none.
func (s *Suspended) SetOf(pod *v1.Pod) int {
	of := pod.Labels[kubeflow.LabelReplicaType]
	return slices.IndexFunc(s.Sets, func(set PodSet) bool { return set.Type == "" || strings.EqualFold(set.Type, of) })
}

// Part returns the object as if it had but so many pods of each of its sets.
func (s *Suspended) Part(counts []int) *Suspended {
	out := *s
	out.Sets = slices.Clone(s.Sets)
	for k := range out.Sets {
		set := &out.Sets[k]
		set.Count = counts[k]
		set.Spare = min(set.Spare, set.Count)
	}
	return &out
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

// Count returns how many of the pods of some IDs, which Pods and Workload have given them, are of each set.
func (s *Suspended) Count(ids []string) []int {
	counts := make([]int, len(s.Sets))
	of, _ := s.order()
	for _, id := range ids {
		_, number, _ := strings.Cut(id, "/")
		if i, err := strconv.Atoi(number); err == nil && i < len(of) {
			counts[of[i]]++
		}
	}
	return counts
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
