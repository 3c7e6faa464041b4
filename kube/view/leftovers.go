package view

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/kube/request"
)

// Leftover is an object that holds no GPUs any longer, and is still there.
type Leftover struct {
	Kind, Namespace, Name string
	What                  LeftoverWhat
	Since                 time.Time // zero is not known
	Bytes                 int64     // that its volumes have; 0 is none
}

// LeftoverWhat is what an object was that is left over.
type LeftoverWhat string

// What is left over.
const (
	LeftJob      LeftoverWhat = "finished"
	LeftNotebook LeftoverWhat = "stopped, keeps its volumes"
)

// bigVolumes is how much the volumes of a stopped notebook have from which on it is a leftover.
const bigVolumes = 10 << 30

// LeftoversOf returns what is left over of objects: Jobs that asked for GPUs, and training jobs, which have finished, and stopped notebooks
// with volumes of at least 10 GiB; those with the largest volumes first, then the oldest. Jobs that are deleted by themselves, by
// ttlSecondsAfterFinished, are left out.
func LeftoversOf(jobs []batchv1.Job, training []unstructured.Unstructured, notebooks []*kubeflow.Notebook, claims []v1.PersistentVolumeClaim) (out []Leftover) {
	for i := range jobs {
		j := &jobs[i]
		at, done := jobEnded(j)
		if done && j.Spec.TTLSecondsAfterFinished == nil && request.AsksForGPUs(&v1.Pod{Spec: j.Spec.Template.Spec}) {
			out = append(out, Leftover{Kind: "Job", Namespace: j.Namespace, Name: j.Name, What: LeftJob, Since: at})
		}
	}
	for i := range training {
		u := &training[i]
		if at, done := trainingEnded(u); done {
			out = append(out, Leftover{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), What: LeftJob, Since: at})
		}
	}
	size := map[[2]string]int64{}
	for i := range claims {
		c := &claims[i]
		has := c.Status.Capacity[v1.ResourceStorage]
		if has.IsZero() {
			has = c.Spec.Resources.Requests[v1.ResourceStorage]
		}
		size[[2]string{c.Namespace, c.Name}] = has.Value()
	}
	for _, nb := range notebooks {
		stopped, is := nb.Annotations[api.AnnotationStopped]
		if bytes := volumesOf(nb, size); is && bytes >= bigVolumes {
			at, _ := time.Parse(time.RFC3339, stopped) // zero if it does not say
			out = append(out, Leftover{Kind: kubeflow.Kind, Namespace: nb.Namespace, Name: nb.Name, What: LeftNotebook, Since: at, Bytes: bytes})
		}
	}
	slices.SortFunc(out, func(a, b Leftover) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), a.Since.Compare(b.Since), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// jobEnded is when a Job finished, if it has.
func jobEnded(j *batchv1.Job) (at time.Time, done bool) {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.UTC(), true
		}
	}
	return at, false
}

// trainingEnded is when a training job finished, if it has, by its conditions.
func trainingEnded(u *unstructured.Unstructured) (at time.Time, done bool) {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, one := range list {
		c, _ := one.(map[string]any)
		if kind := c["type"]; c["status"] == string(metav1.ConditionTrue) && (kind == "Succeeded" || kind == "Failed" || kind == "Complete") {
			text, _ := c["lastTransitionTime"].(string)
			at, _ = time.Parse(time.RFC3339, text)
			return at, true
		}
	}
	return at, false
}

// volumesOf is how much the claims have that a notebook uses.
func volumesOf(nb *kubeflow.Notebook, size map[[2]string]int64) (sum int64) {
	var spec v1.PodSpec
	if json.Unmarshal(nb.Spec.Template.Spec.Raw, &spec) != nil {
		return 0
	}
	for i := range spec.Volumes {
		if c := spec.Volumes[i].PersistentVolumeClaim; c != nil {
			sum += size[[2]string{nb.Namespace, c.ClaimName}]
		}
	}
	return sum
}
