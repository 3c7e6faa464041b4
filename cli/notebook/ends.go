package notebook

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
)

// Foresee reads what starts are expected by, as far as it may be read: the notebooks of the cluster, how long earlier pods ran, and when
// those that run end. times is nil if they cannot be read: then no start is expected.
func (n *Notebooks) Foresee(ctx context.Context) (list []kubeflow.Notebook, times *queue.RunTimes, ends explain.KnownEnds) {
	list, err := n.List(ctx, true, "")
	if err != nil {
		list = nil // which are idle is unknown then
	}
	if times, err = n.RunTimes(ctx); err != nil {
		times = nil
	}
	return list, times, endsOf(ctx, n.Cluster, list)
}

// endsOf returns when notebooks of a list are to be stopped for being idle, and when Jobs end by their activeDeadlineSeconds, as far as Jobs may be read.
func endsOf(ctx context.Context, c *client.Cluster, list []kubeflow.Notebook) explain.KnownEnds {
	out := explain.KnownEnds{Idle: map[request.Owner]time.Time{}}
	for i := range list {
		if at, ok := NoteTime(&list[i], api.AnnotationNotebookStopsAt); ok && State(&list[i]) != reasons.Stopped {
			out.Idle[request.Owner{Kind: kubeflow.Kind, Namespace: list[i].Namespace, Name: list[i].Name}] = at
		}
	}
	jobs, err := c.BatchV1().Jobs("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return out
	}
	out.Deadline = map[request.Owner]time.Time{}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if s := j.Spec.ActiveDeadlineSeconds; s != nil && j.Status.StartTime != nil {
			out.Deadline[request.Owner{Kind: "Job", Namespace: j.Namespace, Name: j.Name}] = j.Status.StartTime.Add(time.Duration(*s) * time.Second)
		}
	}
	return out
}
