package queue

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// WaitingName is the name of the plugin Waiting in the scheduler's configuration.
const WaitingName = "BerthWaiting"

// Waiting is the plugin that keeps pods that are not the first of their line out
// of the scheduler's way. It registers for no events, so that these pods cost
// nothing, however many they are: they are called when it is their turn.
type Waiting struct{ lines *Lines }

var (
	_ fwk.PreEnqueuePlugin  = &Waiting{}
	_ fwk.EnqueueExtensions = &Waiting{}
)

// NewWaitingPlugin makes Waiting for the profiles of one scheduler, whose lines these are.
func NewWaitingPlugin(lines *Lines) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return &Waiting{lines: lines}, nil
	}
}

// Name implements fwk.Plugin.
func (w *Waiting) Name() string { return WaitingName }

// PreEnqueue lets a pod be tried unless others of its line are before it.
func (w *Waiting) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if w.lines.Lets(pod.UID) {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "pods that came earlier ask for the same and fit nowhere yet")
}

// EventsToRegister implements fwk.EnqueueExtensions. No event helps such a pod.
func (w *Waiting) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}
