package training

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/core/training"
)

// StatusOf reads the status of a job.
func StatusOf(s *kubeflow.TrainingStatus) training.Status {
	out := training.Status{Start: instant(s.StartTime), End: instant(s.CompletionTime)}
	for _, c := range s.Conditions {
		out.Conditions = append(out.Conditions, training.Condition{
			Type: c.Type, True: c.Status == corev1.ConditionTrue, Reason: c.Reason, Message: c.Message, Updated: c.LastUpdateTime.Time, Since: c.LastTransitionTime.Time,
		})
	}
	if s.ReplicaStatuses != nil {
		out.Replicas = map[string]training.ReplicaStatus{}
	}
	for t, r := range s.ReplicaStatuses {
		out.Replicas[t] = training.ReplicaStatus{Active: int(r.Active), Succeeded: int(r.Succeeded), Failed: int(r.Failed)}
	}
	return out
}

// Status returns the status of a job as its API has it, and whether it is another one than that of o, which j was read
// from. Times are cut to seconds, as the API stores them.
func Status(o Object, j *training.Job, s *training.Status) (status any, changed bool) {
	if t, ok := o.(*trainer.TrainJob); ok {
		is := trainJobStatus(j, s, t.Status.TrainerStatus)
		return is, !equality.Semantic.DeepEqual(t.Status, is)
	}
	is, was := jobStatus(j, s), jobStatus(j, &j.Status)
	changed = !equality.Semantic.DeepEqual(was, is)
	is.LastReconcileTime = written(o).Status.LastReconcileTime
	return is, changed
}

// jobStatus returns the status of a TFJob or PyTorchJob.
func jobStatus(j *training.Job, s *training.Status) kubeflow.TrainingStatus {
	out := kubeflow.TrainingStatus{StartTime: stamp(s.Start), CompletionTime: stamp(s.End), ReplicaStatuses: map[string]kubeflow.ReplicaStatus{}}
	for _, c := range s.Conditions {
		status := corev1.ConditionFalse
		if c.True {
			status = corev1.ConditionTrue
		}
		out.Conditions = append(out.Conditions, kubeflow.TrainingCondition{
			Type: c.Type, Status: status, Reason: c.Reason, Message: c.Message, LastUpdateTime: second(c.Updated), LastTransitionTime: second(c.Since),
		})
	}
	for t, r := range s.Replicas {
		status := kubeflow.ReplicaStatus{Active: int32(r.Active), Succeeded: int32(r.Succeeded), Failed: int32(r.Failed)} //nolint:gosec // counts of pods
		if j.Kind == training.PyTorchJob {
			status.Selector = selector(j, t)
		}
		out.ReplicaStatuses[t] = status
	}
	return out
}

// selector selects the pods of one type, for the scale subresource.
func selector(j *training.Job, of string) string {
	var parts []string
	for k, v := range labels(j, of) {
		parts = append(parts, k+"="+v)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// labels returns the labels that all pods and Services of a type have, or of the whole job if it is "".
func labels(j *training.Job, of string) map[string]string {
	out := map[string]string{kubeflow.LabelJobName: j.Name, kubeflow.LabelOperatorName: j.Kind.Operator()}
	if of != "" {
		out[kubeflow.LabelReplicaType] = strings.ToLower(of)
	}
	return out
}

func instant(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func stamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	s := second(t)
	return &s
}

func second(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
