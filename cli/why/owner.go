package why

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/training"
	"berth.dev/berth/kube/serving"
	objects "berth.dev/berth/kube/training"
)

// owner reads an object of a kind, or of any kind that makes pods if kind is "", that has
// no pod; nil is that there is none, or that it may not be read.
func (e *explainer) owner(ctx context.Context, kind, name string) (*reasons.Owner, error) {
	for _, k := range []struct {
		kind string
		read func() (*reasons.Owner, error)
	}{
		{"job", func() (*reasons.Owner, error) { return e.job(ctx, name) }},
		{"cronjob", func() (*reasons.Owner, error) { return e.cronJob(ctx, name) }},
		{"tfjob", func() (*reasons.Owner, error) { return e.training(ctx, training.TFJob, name) }},
		{"pytorchjob", func() (*reasons.Owner, error) { return e.training(ctx, training.PyTorchJob, name) }},
		{"trainjob", func() (*reasons.Owner, error) { return e.training(ctx, training.TrainJob, name) }},
		{"deployment", func() (*reasons.Owner, error) {
			d, err := e.AppsV1().Deployments(e.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return &reasons.Owner{Replicas: wanted(d.Spec.Replicas), Paused: d.Spec.Paused, Unseen: e.unseen(d, d.Status.ObservedGeneration)}, nil
		}},
		{"inferenceservice", func() (*reasons.Owner, error) {
			d, err := e.AppsV1().Deployments(e.namespace).Get(ctx, serving.ChildName(name), metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return &reasons.Owner{Replicas: wanted(d.Spec.Replicas), Paused: d.Spec.Paused, Unseen: e.unseen(d, d.Status.ObservedGeneration)}, nil
		}},
		{"statefulset", func() (*reasons.Owner, error) {
			s, err := e.AppsV1().StatefulSets(e.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return &reasons.Owner{Replicas: wanted(s.Spec.Replicas), Unseen: e.unseen(s, s.Status.ObservedGeneration)}, nil
		}},
		{"replicaset", func() (*reasons.Owner, error) {
			s, err := e.AppsV1().ReplicaSets(e.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return &reasons.Owner{Replicas: wanted(s.Spec.Replicas), Unseen: e.unseen(s, s.Status.ObservedGeneration)}, nil
		}},
		{"daemonset", func() (*reasons.Owner, error) {
			s, err := e.AppsV1().DaemonSets(e.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return &reasons.Owner{Replicas: -1, NodesFor: s.Status.DesiredNumberScheduled, Unseen: e.unseen(s, s.Status.ObservedGeneration)}, nil
		}},
	} {
		if kind != "" && kind != k.kind {
			continue
		}
		o, err := k.read()
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return nil, e.Failed("read "+k.kind+" "+e.namespace+"/"+name, err)
		}
		o.Kind, o.Namespace, o.Name = k.kind, e.namespace, name
		if k.kind != "daemonset" {
			o.NodesFor = -1
		}
		return o, nil
	}
	return nil, nil
}

// unseen reports whether no controller has looked at an object, though it had time to.
func (e *explainer) unseen(o metav1.Object, observed int64) bool {
	created := o.GetCreationTimestamp()
	return observed == 0 && o.GetGeneration() > 0 && !created.IsZero() && e.o.Time().Sub(created.Time) > reasons.Unhandled
}

func wanted(n *int32) int64 {
	if n == nil {
		return 1
	}
	return int64(*n)
}

// job reads a Job, and of its last pod with which exit code it ended.
func (e *explainer) job(ctx context.Context, name string) (*reasons.Owner, error) {
	j, err := e.BatchV1().Jobs(e.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	o := &reasons.Owner{Replicas: -1, ExitCode: -1, Suspended: j.Spec.Suspend != nil && *j.Spec.Suspend}
	if o.Suspended {
		if o.Turn = e.turn(ctx, j); o.Turn == nil {
			o.Queue = e.admission(ctx, "job", name)
		}
	}
	for _, c := range j.Status.Conditions {
		if c.Status != v1.ConditionTrue {
			continue
		}
		switch c.Type { //nolint:exhaustive // the rest does not end it
		case batchv1.JobFailed:
			o.Failed = c.Reason + ": " + c.Message
		case batchv1.JobComplete:
			o.Succeeded = true
		}
	}
	return o, nil
}

func (e *explainer) cronJob(ctx context.Context, name string) (*reasons.Owner, error) {
	c, err := e.BatchV1().CronJobs(e.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return &reasons.Owner{
		Replicas: -1, Schedule: c.Spec.Schedule, Suspended: c.Spec.Suspend != nil && *c.Spec.Suspend,
		Active: len(c.Status.Active), Ran: c.Status.LastScheduleTime != nil,
	}, nil
}

// training reads a training job that has no pods.
func (e *explainer) training(ctx context.Context, kind training.Kind, name string) (*reasons.Owner, error) {
	found, err := e.notebooks.Client.Resource(objects.ResourceOf(string(kind))).Namespace(e.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	o, err := objects.Decode(string(kind), found.Object)
	if err != nil {
		return nil, err
	}
	j, _ := objects.Of(o) // what cannot be read is in the status
	status := j.Status
	out := &reasons.Owner{
		Replicas: -1, ExitCode: -1, Suspended: j.Suspend, Resume: e.o.Name + " train resume -n " + e.namespace + " " + name,
		Succeeded: status.Is(training.ConditionSucceeded), Unseen: e.unseen(o, int64(len(status.Conditions))),
	}
	if out.Suspended {
		out.Turn = e.turn(ctx, o)
	}
	for _, c := range status.Conditions {
		if c.Type == training.ConditionFailed && c.True {
			out.Failed = c.Message
		}
	}
	return out, nil
}

// lastExit is the exit code of the container of pod that ended last, -1 if none has.
func lastExit(pod *v1.Pod) int32 {
	out := int32(-1)
	var at metav1.Time
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		for _, t := range []*v1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if t != nil && (out < 0 || at.Before(&t.FinishedAt)) {
				out, at = t.ExitCode, t.FinishedAt
			}
		}
	}
	return out
}
