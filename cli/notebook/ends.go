package notebook

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
)

// Foresight is what starts are expected by.
type Foresight struct {
	Notebooks []kubeflow.Notebook // of the cluster; nil if they cannot be read: which are idle is unknown then
	RunTimes  *queue.RunTimes     // of earlier pods; nil if they cannot be read: then no start is expected
	Outcomes  *forecast.Outcomes  // of earlier estimates; nil if they cannot be read: then none is corrected
	Ends      explain.KnownEnds   // of what runs
}

// Foresee reads what starts are expected by, as far as it may be read.
func (n *Notebooks) Foresee(ctx context.Context) (f Foresight) {
	list, err := n.List(ctx, true, "")
	if err == nil {
		f.Notebooks = list
	}
	if learned, err := n.Learned(ctx); err == nil {
		f.RunTimes, _ = learned.RunTimes() // nil, as is what follows, if damaged
		f.Outcomes, _ = learned.Outcomes()
	}
	f.Ends = endsOf(ctx, n.Cluster, f.Notebooks)
	return f
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
