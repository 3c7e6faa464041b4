package notebook

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"berth.dev/berth/api"
	"berth.dev/berth/core/explain"
)

// podSteps are the steps that a notebook's pod has reached, in their order, as they
// are shown. The notebook tells of them only where they last.
func podSteps(name string, pod *v1.Pod) []string {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Labels[api.LabelNotebook] != name || len(pod.Spec.Containers) == 0 {
		return nil
	}
	out := []string{"Bound: to node " + pod.Spec.NodeName}
	main := &pod.Spec.Containers[max(0, slices.IndexFunc(pod.Spec.Containers, func(c v1.Container) bool { return c.Name == name }))]
	made := slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReadyToStartContainers && c.Status == v1.ConditionTrue
	})
	if made {
		out = append(out, fmt.Sprintf("Pulling: image %s, unless it is on the node", main.Image))
	}
	if slices.ContainsFunc(pod.Status.ContainerStatuses, func(s v1.ContainerStatus) bool { return s.Name == main.Name && s.State.Running != nil }) {
		out = append(out, "Started: waiting for it to respond")
	}
	return out
}

// followPod tells of the pod of a notebook as it is and after every change of it, nil
// where it is gone, until ctx ends. Of a pod that may not be watched it tells nothing:
// the notebook says what lasts.
func (n *Notebooks) followPod(ctx context.Context, name string, tell func(*v1.Pod)) {
	for ctx.Err() == nil {
		tell(nil) // it may have gone while it was not watched
		w, err := n.CoreV1().Pods(n.Namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), // from no version on: what is there comes first
		})
		if apierrors.IsForbidden(err) {
			return
		}
		if err == nil {
			tellPods(ctx, w, name, tell)
		}
		select {
		case <-ctx.Done():
		case <-time.After(followAgain):
		}
	}
}

// tellPods is one watch of followPod.
func tellPods(ctx context.Context, w watch.Interface, name string, tell func(*v1.Pod)) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.ResultChan():
			if !ok || e.Type == watch.Error {
				return
			}
			pod, is := e.Object.(*v1.Pod)
			switch {
			case !is || pod.Name != name || e.Type == watch.Bookmark:
			case e.Type == watch.Deleted:
				tell(nil)
			default:
				tell(pod)
			}
		}
	}
}

// lastSteps tells of the pod of a notebook that is ready, of which a watch may not have
// told yet.
func (n *Notebooks) lastSteps(ctx context.Context, name string, tell func(*v1.Pod)) {
	pod, err := n.CoreV1().Pods(n.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		tell(pod)
	}
}

// toldByPod are the states of a notebook that its pod, once it has a node, tells sooner
// and in more steps.
var toldByPod = []explain.Reason{explain.Starting, explain.Pulling, explain.Queued, explain.NoSuchGPU}
