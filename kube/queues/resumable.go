package queues

import (
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/api"
	"berth.dev/berth/core/quota"
	rules "berth.dev/berth/core/training"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/training"
)

// Of reads a Job or a training job with the pods that it creates once it is resumed. classes are those that its
// pods can get; nil is none. It is nil for objects of other kinds.
func Of(o metav1.Object, classes *PriorityClasses) *Suspended {
	switch o := o.(type) {
	case *batchv1.Job:
		return ofJob(o, classes)
	case training.Object:
		return ofTraining(o, classes)
	}
	return nil
}

// Slim is the transform of informers of objects that can be resumed in their turn. It decodes training jobs, and keeps of
// objects that do not ask for their turn, or are nothing that can be read, only who they are.
func Slim(obj any) (any, error) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return obj, nil
	}
	only := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}}
	if !AsksForTurn(o) {
		return only, nil
	}
	if u, raw := obj.(*unstructured.Unstructured); raw {
		j, err := training.Decode(u.GetKind(), u.Object)
		if err != nil {
			return only, nil //nolint:nilerr // an API server does not accept such jobs
		}
		o = j
	}
	o.SetManagedFields(nil)
	return o, nil
}

func ofJob(j *batchv1.Job, classes *PriorityClasses) *Suspended {
	count := parallelism(j)
	s := &Suspended{
		Object: j, APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job",
		Is: j.Spec.Suspend != nil && *j.Spec.Suspend, Over: j.DeletionTimestamp != nil || ended(j), Left: j.Status.Active > 0,
		Creates: 1,
	}
	if p := j.Spec.Parallelism; p != nil {
		s.Creates = int(*p)
	}
	s.Creates = min(s.Creates, count)
	switch by := j.Spec.ManagedBy; {
	case by != nil && *by != batchv1.JobControllerName:
		s.never = managed("spec.managedBy", *by)
	case count <= 0:
		s.never = "spec.parallelism is 0, so it would create no pods"
		return s
	}
	set, least := PodSet{Pod: s.pod(&j.Spec.Template, classes)}, 0
	if g, err := request.GangOf(set.Pod); err == nil && g != nil {
		least = g.MinCount
	}
	name := api.AnnotationMinParallelism
	if _, own := j.Annotations[name]; !own {
		name = api.AnnotationKueueMinParallelism
	}
	if text, asked := j.Annotations[name]; asked {
		if n, err := strconv.ParseInt(text, 10, 32); err == nil && n > 0 {
			s.Resizes, least = true, max(least, int(n))
		} else {
			s.Problem = fmt.Sprintf("the annotation %s is %q, which is not a valid number of pods, and is ignored", name, text)
		}
	}
	if least <= 0 {
		least = count
	}
	set.Set = quota.Needed([]int{count}, least)[0]
	s.Sets = []PodSet{set}
	return s
}

// managed says that another controller resumes an object, which a field names.
func managed(field, by string) string {
	return fmt.Sprintf("%s is %s, so another controller resumes it", field, by)
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

// parallelism returns how many pods a Job asks for: what spec.parallelism was before it was started
// with fewer, and at most as many as it still needs.
func parallelism(j *batchv1.Job) int {
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

// ofTraining reads a training job. Its sets are its types of replicas, in the order of their ranks, and the first of its
// pods are needed: as many as core/training.Job.Least says of a job of which no pod has succeeded, as all are created again, or as the
// annotation berth.dev/gang-min-count of its first set says.
func ofTraining(o training.Object, classes *PriorityClasses) *Suspended {
	s := &Suspended{Object: o, APIVersion: training.ResourceOf(o.JobKind()).GroupVersion().String(), Kind: o.JobKind()}
	j, err := training.Of(o)
	if err == nil {
		err = training.Check(o, &j)
	}
	status := &j.Status
	s.Is, s.Over = j.Suspend, o.GetDeletionTimestamp() != nil || status.Ended()
	s.Left = j.Active() > 0 || len(status.Conditions) > 0 && !status.Is(rules.ConditionSuspended)
	if err != nil {
		s.never = "the job cannot run: " + err.Error()
		return s
	}
	if !j.Ours() {
		field := "spec.runPolicy.managedBy"
		if j.Kind == rules.TrainJob {
			field = "spec.managedBy"
		}
		s.never = managed(field, j.ManagedBy)
	}
	specs, _ := training.Specs(o) // Of has read them
	status.Replicas = nil
	need, counts := j.Least(), []int{}
	for k, r := range j.ByRank() {
		spec := specs[r.Type]
		template, _ := training.Template(&spec)
		pod := s.pod(template, classes)
		if g, err := request.GangOf(pod); k == 0 && err == nil && g != nil && g.MinCount > 0 {
			need = g.MinCount
		}
		s.Sets, counts = append(s.Sets, PodSet{Type: r.Type, Pod: pod}), append(counts, r.Count)
		s.Creates += r.Count
	}
	for k, set := range quota.Needed(counts, need) {
		s.Sets[k].Set = set
	}
	return s
}
