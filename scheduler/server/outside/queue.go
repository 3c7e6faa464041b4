// Package outside keeps pods that are not to be tried now, as they wait for quota or for their turn,
// outside of kube-scheduler's queue, which looks at each pod that it holds for every event, also
// where no event helps that pod.
package outside

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	queue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"berth.dev/berth/scheduler/devices"
	"berth.dev/berth/scheduler/state"
)

// Queue is kube-scheduler's queue without the pods that wait for quota, and those that are not the first
// of their line. It returns them to that queue when they are activated and may be tried, as new
// pods: their attempts and the time for which they have been tried are counted from there. Until then
// the metrics of pending pods count them as gated.
//
// Its lock is taken before that of kube-scheduler's queue, and before those of the quotas and the lines.
type Queue struct {
	queue.SchedulingQueue
	pods  corelisters.PodLister
	state *state.State

	mu  sync.Mutex
	out map[types.UID]pod
}

// pod is what is known of a pod outside, and the plugin for which it is there.
type pod struct{ namespace, name, scheduler, by string }

// Use has s keep its pods that wait for the quotas and in the lines of st outside of its queue. It must
// be called before s runs, and before its informers do.
func Use(s *scheduler.Scheduler, pods corelisters.PodLister, st *state.State) *Queue {
	o := &Queue{SchedulingQueue: s.SchedulingQueue, pods: pods, state: st, out: map[types.UID]pod{}}
	s.SchedulingQueue = o
	for _, profile := range s.Profiles {
		profile.SetPodActivator(o)
	}
	st.Quota.Waiting = o.Take
	st.Waiting.Moved = o.moved
	failed := st.Waits.Failed
	st.Waits.Failed = func(p *v1.Pod) {
		failed(p)
		o.keep(p)
	}
	return o
}

// Take takes pods that wait for quota out of the queue. Pods that are being tried stay, and so
// do those for which a node is nominated: others count on that. PreEnqueue keeps these.
func (o *Queue) Take(pods []*v1.Pod) {
	stay := map[string]*v1.Pod{}
	o.mu.Lock()
	for _, p := range pods {
		if o.out[p.UID] == (pod{}) && !o.take(p) {
			stay[p.Namespace+"/"+p.Name] = p
		}
	}
	o.mu.Unlock()
	if len(stay) > 0 {
		o.SchedulingQueue.Activate(klog.Background(), stay)
	}
}

// keep takes a pod out of the queue that waits for its turn.
func (o *Queue) keep(p *v1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, there := o.out[p.UID]; !there && !o.state.Waiting.Lets(p.UID) {
		o.take(p)
	}
}

// lets reports whether a pod outside may be tried.
func (o *Queue) lets(uid types.UID) bool { return o.state.Quota.Lets(uid) && o.state.Waiting.Lets(uid) }

// keeps names the plugin that keeps a pod from being tried; "" is that it may be.
func (o *Queue) keeps(p *v1.Pod) (by string) {
	switch {
	case o.state.Quota.Waits(p):
		return devices.QueuesName
	case !o.state.Waiting.Lets(p.UID):
		return devices.WaitingName
	}
	return ""
}

// take takes a pod out of the queue that is not to be tried now, with mu held. It reports whether the pod is outside then.
func (o *Queue) take(p *v1.Pod) bool {
	now, err := o.pods.Pods(p.Namespace).Get(p.Name)
	if err != nil || now.UID != p.UID || now.Spec.NodeName != "" || now.Status.NominatedNodeName != "" || now.Spec.SchedulingGroup != nil {
		return false
	}
	by := o.keeps(now)
	if by == "" {
		return false
	}
	if _, has := o.GetPod(p.Name, p.Namespace); !has {
		return false
	}
	o.SchedulingQueue.Delete(now)
	o.out[p.UID] = pod{p.Namespace, p.Name, p.Spec.SchedulerName, by}
	metrics.GatedPods().Inc()
	metrics.UnschedulableReason(by, p.Spec.SchedulerName).Inc()
	return true
}

// leave forgets a pod, with mu held, and returns it as it was outside; the zero value is that it was not.
func (o *Queue) leave(uid types.UID) pod {
	was, there := o.out[uid]
	if there {
		delete(o.out, uid)
		metrics.GatedPods().Dec()
		metrics.UnschedulableReason(was.by, was.scheduler).Dec()
	}
	return was
}

// moved takes a pod out of the queue that waits for its turn now, or has one tried that no longer does.
func (o *Queue) moved(p *v1.Pod) {
	if !o.state.Waiting.Lets(p.UID) {
		o.keep(p)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, there := o.out[p.UID]; there {
		if o.lets(p.UID) {
			o.enter(context.Background(), p)
		}
	} else if _, has := o.GetPod(p.Name, p.Namespace); has {
		o.SchedulingQueue.Activate(klog.Background(), map[string]*v1.Pod{p.Namespace + "/" + p.Name: p})
	}
}

// Activate implements queue.SchedulingQueue: pods outside return if they may be tried. Those that wait for quota are tried
// once in any case, as the caller knows a reason: there is quota, or others may be evicted.
func (o *Queue) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	inside := make(map[string]*v1.Pod, len(pods))
	o.mu.Lock()
	o.state.Quota.Retry(pods)
	for name, p := range pods {
		if _, there := o.out[p.UID]; !there {
			inside[name] = p
		} else if o.lets(p.UID) {
			o.enter(klog.NewContext(context.Background(), logger), p)
		}
	}
	o.mu.Unlock()
	if len(inside) > 0 {
		o.SchedulingQueue.Activate(logger, inside)
	}
}

// enter returns a pod to the queue as the watch has it now, with mu held.
func (o *Queue) enter(ctx context.Context, p *v1.Pod) {
	was := o.leave(p.UID)
	if now, err := o.pods.Pods(was.namespace).Get(was.name); err == nil && now.UID == p.UID && now.Spec.NodeName == "" {
		o.SchedulingQueue.Update(ctx, now, now) // adds it, unless it is being tried
	}
}

// Update implements queue.SchedulingQueue. Changes of pods outside are read when these return. A pod for which a
// node is nominated returns, and one whose nomination ends may go.
func (o *Queue) Update(ctx context.Context, was, now *v1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if was != nil && now.UID != was.UID {
		o.leave(was.UID)
	}
	if _, there := o.out[now.UID]; !there {
		o.SchedulingQueue.Update(ctx, was, now)
		if was != nil && was.Status.NominatedNodeName != "" && now.Status.NominatedNodeName == "" {
			o.take(now)
		}
		return
	}
	if now.Status.NominatedNodeName == "" {
		return
	}
	o.enter(ctx, now)
	if info, err := framework.NewPodInfo(now); err == nil {
		o.AddNominatedPod(klog.FromContext(ctx), info, nil) // PreEnqueue may keep it, which then does not
	}
}

// Delete implements queue.SchedulingQueue.
func (o *Queue) Delete(p *v1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leave(p.UID)
	o.SchedulingQueue.Delete(p)
}

// PendingPods implements queue.SchedulingQueue.
func (o *Queue) PendingPods() ([]*v1.Pod, string) {
	pods, summary := o.SchedulingQueue.PendingPods()
	o.mu.Lock()
	defer o.mu.Unlock()
	by := map[string]int{}
	for uid, p := range o.out {
		if now, err := o.pods.Pods(p.namespace).Get(p.name); err == nil && now.UID == uid {
			pods = append(pods, now)
		}
		by[p.by]++
	}
	return pods, fmt.Sprintf("%s; waiting for quota:%v; waiting for their turn:%v", summary, by[devices.QueuesName], by[devices.WaitingName])
}
