package training

import (
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"berth.dev/berth/api"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/core/training"
)

// Names and labels of the pods of an indexed Job (pkg/controller/job of Kubernetes).
const (
	labelIndex = "batch.kubernetes.io/job-completion-index" // also an annotation
	labelJob   = "batch.kubernetes.io/job-name"
	// labelReplicated names the replicatedJob of a JobSet.
	labelReplicated = "jobset.sigs.k8s.io/replicatedjob-name"
	oldJob          = "job-name"
	envIndex        = "JOB_COMPLETION_INDEX"
)

// podName returns the name of a member's pod. That of a TrainJob ends as if generated, as the pods of an indexed Job do, but is the same
// each time, so none is created twice.
func podName(o Object, j *training.Job, m training.Member) string {
	name := m.Name(j.Name)
	if j.Kind != training.TrainJob {
		return name
	}
	h := fnv.New64a()
	h.Write([]byte(string(o.GetUID()) + "/" + strconv.Itoa(m.Index)))
	return name + "-" + rand.SafeEncodeString(strconv.FormatUint(h.Sum64(), 10))[:5]
}

// asJobSet completes the pod of a TrainJob as the JobSet that upstream makes would have it: with labels and annotations of
// JobSet (pkg/controllers of jobset 0.11) and of the Job with the pod's index, and a host name that the Service makes known. The key of the Job
// is left out, which is for JobSet's own placement.
func asJobSet(o Object, j *training.Job, m training.Member, meta, spec map[string]any) {
	index, job := strconv.Itoa(m.Index), j.Name+"-node-0"
	labels, notes := child(meta, "labels"), child(meta, "annotations")
	for name, value := range map[string]string{
		"jobset-name": j.Name, "jobset-uid": string(o.GetUID()), "replicatedjob-name": "node", "replicatedjob-replicas": "1", "global-replicas": "1",
		"restart-attempt": strconv.Itoa(j.Round), "job-index": "0", "job-global-index": "0", "group-name": "default", "group-replicas": "1", "job-group-index": "0",
	} {
		labels["jobset.sigs.k8s.io/"+name], notes["jobset.sigs.k8s.io/"+name] = value, value
	}
	labels[labelIndex], notes[labelIndex], labels[labelJob], labels[oldJob] = index, index, job, job
	labels[trainer.LabelStep] = trainer.StepTrainer
	spec["hostname"], spec["subdomain"] = m.Name(j.Name), j.Name
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := spec[list].([]any)
		for i := range containers {
			c, _ := containers[i].(map[string]any)
			if env, _ := c["env"].([]any); c != nil && !has(env, envIndex) {
				c["env"] = append(env, map[string]any{"name": envIndex, "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.labels['" + labelIndex + "']"}}})
			}
		}
	}
}

// jobSetService makes the Service of a TrainJob, by which its pods find each other.
func jobSetService(o Object, j *training.Job) map[string]any {
	marks := map[string]any{}
	for k, v := range labels(j, "") {
		marks[k] = v
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": j.Name, "namespace": j.Namespace, "labels": marks, "ownerReferences": owner(o)},
		"spec": map[string]any{
			"clusterIP": corev1.ClusterIPNone, "publishNotReadyAddresses": true, "selector": map[string]any{api.LabelJobSet: j.Name},
		},
	}
}

// OfJobSet reports whether a pod is of the JobSet that upstream's trainer makes of a TrainJob, by its labels: one of that name, which
// makes it by a Job.
func OfJobSet(o Object, p *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(p)
	return o.JobKind() == trainer.KindTrainJob && ref != nil && ref.Kind == "Job" && p.Labels[api.LabelJobSet] == o.GetName()
}

// child returns a field that is an object, which is made if it is not there.
func child(object map[string]any, name string) map[string]any {
	m, _ := object[name].(map[string]any)
	if m == nil {
		m = map[string]any{}
		object[name] = m
	}
	return m
}
