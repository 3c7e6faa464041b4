package request

import (
	"fmt"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/training"
)

// mostMembers is the most pods of a gang.
const mostMembers = 1 << 20

// MinCount reads how many members must have a place before any gets one out of
// an object of kind k, in the form of decoded JSON. It is at least 1. Fields
// that are missing have the API's defaults.
//
//	PodGroup of Kubernetes    spec.schedulingPolicy.gang.minCount; 1 for policy basic
//	PodGroups of others       spec.minMember
//	Job                       spec.parallelism, or what is left of spec.completions where that is less
//	JobSet                    the same of each Job, times the replicas of it
//	TFJob and others          what core/training.Job.Least says
func (k GangKind) MinCount(object map[string]any) (int, error) {
	spec := child(object, "spec")
	var n int64
	switch k {
	case GangPodGroup:
		n = number(child(child(spec, "schedulingPolicy"), "gang"), "minCount", 1)
	case GangJob:
		n = parallel(spec)
		n = min(n, number(spec, "completions", 1<<24)-number(child(object, "status"), "succeeded", 0))
	case GangJobSet:
		jobs, _ := spec["replicatedJobs"].([]any)
		for _, j := range jobs {
			job, _ := j.(map[string]any)
			n += number(job, "replicas", 1) * parallel(child(child(job, "template"), "spec"))
		}
	case GangTFJob, GangPyTorchJob, GangTrainJob:
		least, err := training.Least(k.Kind, object)
		if err != nil {
			return 0, err
		}
		n = int64(least)
	default:
		n = number(spec, "minMember", 1)
	}
	if n > mostMembers {
		return 0, fmt.Errorf("%s: a gang of %d pods is more than the %d that are possible", k, n, mostMembers)
	}
	return int(max(n, 1)), nil
}

// CountedBy returns those of an object's annotations that MinCount reads: of a TrainJob its runtime, and how many pods have succeeded.
func CountedBy(annotations map[string]string) map[string]string {
	var out map[string]string
	for _, name := range []string{api.AnnotationRuntime, api.AnnotationSucceeded} {
		if v, ok := annotations[name]; ok {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = v
		}
	}
	return out
}

// parallel is how many pods a Job of a spec runs at once.
func parallel(spec map[string]any) int64 {
	n := number(spec, "parallelism", 1)
	return min(n, number(spec, "completions", n))
}

// child returns a field that is an object; nil where it is not there.
func child(object map[string]any, field string) map[string]any {
	out, _ := object[field].(map[string]any)
	return out
}

// number returns a field that is a whole number, at most 1<<24, or what it is where
// it is not there. JSON is decoded to int64, or float64 by others.
func number(object map[string]any, field string, missing int64) int64 {
	switch n := object[field].(type) {
	case int64:
		return min(n, 1<<24)
	case float64:
		return int64(min(n, 1<<24))
	}
	return missing
}

// String is the object as people write it, such as "PodGroup train of
// scheduling.x-k8s.io/v1alpha1".
func (o GangObject) String() string {
	return o.Kind.Kind + " " + o.Name + " of " + o.Kind.Group + "/" + o.Kind.Version
}
