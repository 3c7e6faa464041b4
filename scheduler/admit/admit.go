// Package admit is the plugin BerthQueues: it lets pods be placed for which their queue
// has quota, and counts those that get a node. Gangs are admitted whole, by package
// gang.
package admit

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/filters"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/quota"
	"berth.dev/berth/scheduler/quota/informer"
	"berth.dev/berth/scheduler/resume"
	"berth.dev/berth/scheduler/state"
)

// Name is the plugin's name in the scheduler's configuration. It must come before the
// plugins that place pods.
const Name = "BerthQueues"

// Queues is the plugin in one profile of the scheduler.
type Queues struct{ cluster *nodeindex.Cluster }

// The extension points that Queues is in.
var (
	_ fwk.PreEnqueuePlugin  = &Queues{}
	_ fwk.PreFilterPlugin   = &Queues{}
	_ fwk.FilterPlugin      = &Queues{}
	_ fwk.ReservePlugin     = &Queues{}
	_ fwk.PostBindPlugin    = &Queues{}
	_ fwk.EnqueueExtensions = &Queues{}
	_ fwk.SignPlugin        = &Queues{}
)

// New makes the plugin for the profiles of one scheduler, of c.
func New(c *nodeindex.Cluster) nodeindex.Maker {
	var once sync.Once
	return func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		var err error
		once.Do(func() {
			if err = resume.Watch(ctx, h, c); err == nil {
				err = informer.Watch(ctx, h, c.Quota)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("watch queues: %w", err)
		}
		return &Queues{c}, nil
	}
}

// Name implements fwk.Plugin.
func (x *Queues) Name() string { return Name }

// PreEnqueue keeps pods out of the scheduler's way that wait for quota.
func (x *Queues) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if x.cluster.Quota.Lets(pod.UID) {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "its queue has not enough quota left")
}

// PreFilter refuses a pod for which its queue has not enough quota left. If the evictions of
// others may help, the cycle goes on so that PostFilter can look for them.
func (x *Queues) PreFilter(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	q := x.cluster.Quota
	if !q.Ready(ctx) || !request.AsksForGPUs(pod) || filters.Active(cycle) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	status := fwk.NewStatus(fwk.Skip)
	if g, err := request.GangOf(pod); g == nil && err == nil {
		status = Try(x.cluster, cycle, quota.Alone(pod, x.cluster.Waiting.Ticket(pod)))
	}
	if status.IsSkip() && q.Choices(pod) > 0 {
		status = nil // Filter is to be asked
	}
	return nil, status
}

// Filter refuses nodes with GPUs that the pod's quotas do not leave, or not now: others are
// preferred.
func (x *Queues) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if x.cluster.Quota.May(pod.UID, info.Node()) {
		return nil
	}
	return fwk.NewStatus(fwk.Unschedulable, state.QuotaElsewhere)
}

// Try asks the quotas about a pod in its scheduling cycle. The status is Skip if it may go on,
// and Unschedulable if the evictions of others may help.
func Try(c *nodeindex.Cluster, cycle fwk.CycleState, a *quota.Ask) *fwk.Status {
	no, _ := try(c, cycle, a)
	if no == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return no
}

// Gang is Try for a gang that is about to be planned. Where it may go on the status is
// nil, and count is how many of its pods there is quota for. It refuses for good, because
// room is made for the gang and not for the lead alone.
func Gang(c *nodeindex.Cluster, cycle fwk.CycleState, a *quota.Ask) (no *fwk.Status, count int) {
	if no, count = try(c, cycle, a); no != nil {
		no = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, no.Reasons()...)
	}
	return no, count
}

// try is Try, with how many pods there is quota for.
func try(c *nodeindex.Cluster, cycle fwk.CycleState, a *quota.Ask) (no *fwk.Status, count int) {
	answer := c.Quota.Try(a)
	if answer.Refused == "" {
		return nil, answer.Count
	}
	c.Waiting.Leave(a.Lead.UID)
	c.Waits.Note(a.Lead.UID, queue.Quota)
	cycle.Write(state.QuotaKey, &state.NoQuota{Text: answer.Refused, Final: !answer.Room})
	if answer.Room {
		return fwk.NewStatus(fwk.Unschedulable, answer.Refused), 0
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, answer.Refused), 0
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (x *Queues) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// SignPod implements fwk.SignPlugin: quota is asked for pod by pod.
func (x *Queues) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if request.AsksForGPUs(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "quota is asked for pod by pod")
	}
	return nil, nil
}

// EventsToRegister implements fwk.EnqueueExtensions: there are none. Pods that
// wait for quota are called when there is some.
func (x *Queues) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}
