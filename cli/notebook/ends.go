package notebook

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
)

// Ends returns when notebooks of a list are to be stopped for being idle, and when Jobs end by their activeDeadlineSeconds, as far as Jobs may be read.
func Ends(ctx context.Context, c *client.Cluster, list []kubeflow.Notebook) explain.KnownEnds {
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
