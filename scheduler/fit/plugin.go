// Package fit is the plugin BerthDevices: it chooses the node and the devices of a
// pod, and commits them with the binding. It narrows a pod to the one node that the
// placement index likes best, checks devices on a node, reserves them, and writes
// them with the pod's node in one request.
package fit

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/queue"
	"berth.dev/berth/scheduler/state"
)

// Name is the plugin's name in the scheduler's configuration.
const Name = state.DevicesName

// Plugin is the plugin in one profile of the scheduler.
type Plugin struct{ *nodeindex.Profile }

// The extension points that Plugin is in.
var (
	_ fwk.PreFilterPlugin   = &Plugin{}
	_ fwk.FilterPlugin      = &Plugin{}
	_ fwk.PostFilterPlugin  = &Plugin{}
	_ fwk.PreScorePlugin    = &Plugin{}
	_ fwk.ScorePlugin       = &Plugin{}
	_ fwk.ReservePlugin     = &Plugin{}
	_ fwk.BindPlugin        = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
	_ fwk.SignPlugin        = &Plugin{}
)

// Factory makes the plugin for each profile of one scheduler. Its profiles share
// what they have chosen, as they share the nodes: make one Factory a scheduler.
func Factory() nodeindex.Maker {
	d := nodeindex.NewCluster()
	nodeindex.Register(d)
	return NewPlugin(d)
}

// NewPlugin makes the plugin for the profiles of one scheduler, of c.
func NewPlugin(d *nodeindex.Cluster) nodeindex.Maker {
	return func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		p := &Plugin{&nodeindex.Profile{Handle: h, Cluster: d}}
		d.Waiting.Call = queue.Caller(h) // the profiles have one queue
		informer := h.SharedInformerFactory().Core().V1().Pods().Informer()
		d.Deleted = deleted(informer.GetStore())
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(old, now any) { d.Seen(old.(*v1.Pod), now.(*v1.Pod)) },
			DeleteFunc: func(obj any) {
				if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = gone.Obj
				}
				if pod, ok := obj.(*v1.Pod); ok {
					d.Gone(pod.UID)
				}
			},
		})
		if err != nil {
			return nil, fmt.Errorf("watch pods: %w", err)
		}
		return p, nil
	}
}

// deleted reports whether a watch, of which this is the store, has seen that a pod is gone.
func deleted(store cache.Store) func(*v1.Pod) bool {
	return func(pod *v1.Pod) bool {
		obj, there, err := store.GetByKey(pod.Namespace + "/" + pod.Name)
		now, is := obj.(*v1.Pod)
		return err == nil && (!there || is && now.UID != pod.UID)
	}
}

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }

// PreFilterExtensions implements fwk.PreFilterPlugin. There are none: Filter
// looks at the NodeInfo that it is given, whatever was added or removed.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// SignPod implements fwk.SignPlugin: pods for which this plugin names a node are
// each chosen for alone.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if request.AsksForGPUs(pod) || unspread(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "devices are chosen pod by pod")
	}
	return nil, nil
}

// unspread reports whether a pod need not be apart from others like it: it stands
// alone or belongs to a Job. Pods of replicated kinds are spread by default.
func unspread(pod *v1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, "batch/")
}
