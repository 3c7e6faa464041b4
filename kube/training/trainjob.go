package training

import (
	"errors"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/core/training"
	"berth.dev/berth/kube/trainjob"
)

// completed is the condition of a TrainJob that other jobs call Succeeded.
const completed = "Complete"

// ofTrainJob reads a TrainJob. With an error it has no more than its replicas and status.
func ofTrainJob(t *trainer.TrainJob) (training.Job, error) {
	j := training.Job{
		Kind: training.TrainJob, Namespace: t.Namespace, Name: t.Name, Suspend: or(t.Spec.Suspend, false), ManagedBy: or(t.Spec.ManagedBy, ""),
		Clean: training.CleanRunning, Deadline: seconds(t.Spec.ActiveDeadlineSeconds), // what ends a Job deletes the pods that run
	}
	node := training.Replica{Type: training.Node, Count: 1, Restart: training.RestartOnFailure}
	_, node.Port = j.Kind.Port()
	if t.Spec.Trainer != nil {
		node.Count = int(max(or(t.Spec.Trainer.NumNodes, 1), 1))
	}
	r, err := trainjob.Resolve(t)
	if err == nil {
		node.Count, j.TTL, j.BackoffLimit = r.Nodes, r.TTL, &r.BackoffLimit
		if !r.KeepsPods {
			// A Job counts its failed pods: more of them than the limit fail it. Restarts of containers fail it at the limit.
			node.Restart = training.RestartPod
			r.BackoffLimit++
		}
	}
	j.Replicas = []training.Replica{node}
	j.Restarts, j.Round, _ = ParseRestarts(t.Annotations[api.AnnotationRestarts]) // none if someone else wrote it
	j.Status = statusOfTrainJob(t, node.Count)
	return j, err
}

// statusOfTrainJob reads the status of a TrainJob of so many pods. Its API knows fewer conditions: Created and Running, without a time, are
// read from the status of its Job.
func statusOfTrainJob(t *trainer.TrainJob, nodes int) training.Status {
	out := training.Status{Start: t.CreationTimestamp.Time}
	count := training.ReplicaStatus{}
	count.Succeeded, _ = strconv.Atoi(t.Annotations[api.AnnotationSucceeded])
	for _, s := range t.Status.JobsStatus {
		out.Conditions = append(out.Conditions, training.Condition{Type: training.ConditionCreated, True: true})
		switch {
		case s.Ready > 0:
			count.Active = max(nodes-count.Succeeded, 0)
			out.Conditions = append(out.Conditions, training.Condition{Type: training.ConditionRunning, True: true})
		case s.Active > 0:
			count.Pending = max(nodes-count.Succeeded, 1)
		case s.Succeeded > 0:
			count.Succeeded = nodes
		}
	}
	for _, c := range t.Status.Conditions {
		one := training.Condition{Type: c.Type, True: c.Status == metav1.ConditionTrue, Reason: c.Reason, Message: c.Message, Updated: c.LastTransitionTime.Time, Since: c.LastTransitionTime.Time}
		switch {
		case c.Type == completed:
			one.Type = training.ConditionSucceeded
		case c.Type == training.ConditionSuspended && !one.True:
			out.Start = one.Since // a job that is resumed starts again
		}
		if one.True && (one.Type == training.ConditionSucceeded || one.Type == training.ConditionFailed) {
			out.End = one.Since
		}
		if one.Type == training.ConditionQueued {
			out.Conditions = append([]training.Condition{one}, out.Conditions...)
		} else {
			out.Conditions = append(out.Conditions, one)
		}
	}
	out.Replicas = map[string]training.ReplicaStatus{training.Node: count}
	return out
}

// trainJobStatus returns the status of a TrainJob as the API has it, with what its program has reported.
func trainJobStatus(j *training.Job, s *training.Status, reported *runtime.RawExtension) trainer.TrainJobStatus {
	out := trainer.TrainJobStatus{TrainerStatus: reported}
	supported := true
	for _, c := range s.Conditions {
		one := metav1.Condition{Type: c.Type, Status: metav1.ConditionFalse, Reason: c.Reason, Message: c.Message, LastTransitionTime: second(c.Since)}
		if c.True {
			one.Status = metav1.ConditionTrue
		}
		switch c.Type {
		case training.ConditionCreated, training.ConditionRunning, training.ConditionRestarting:
			continue
		case training.ConditionQueued:
			if !c.True {
				continue // of a job that runs it would be the last condition, and so its state
			}
		case training.ConditionSucceeded:
			one.Type = completed
		case training.ConditionFailed:
			supported = c.Reason != trainer.ReasonNotSupported
		}
		out.Conditions = append(out.Conditions, one)
	}
	if !supported {
		return out
	}
	// The status counts Jobs, of which there is one.
	count, job := s.Replicas[training.Node], trainer.JobStatus{Name: "node"}
	switch {
	case s.Is(training.ConditionSucceeded):
		job.Succeeded = 1
	case s.Is(training.ConditionFailed):
		job.Failed = 1
	case j.Suspend:
		job.Suspended = 1
	default:
		job.Active = flag(count.Active+count.Pending > 0)
		job.Ready = flag(count.Active+count.Succeeded >= j.Total())
	}
	out.JobsStatus = []trainer.JobStatus{job}
	return out
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// trainJobSpec returns the pods of a TrainJob as other jobs have them written.
func trainJobSpec(t *trainer.TrainJob) (map[string]kubeflow.ReplicaSpec, error) {
	r, err := trainjob.Resolve(t)
	if err != nil {
		return nil, err
	}
	return map[string]kubeflow.ReplicaSpec{training.Node: {Template: runtime.RawExtension{Raw: r.Template}}}, nil
}

// NotSupported reports whether an error of Of or Check is that the runtime of a TrainJob cannot be used.
func NotSupported(err error) bool {
	var u *trainjob.Unsupported
	return errors.As(err, &u)
}
