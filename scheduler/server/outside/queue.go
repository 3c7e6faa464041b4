// Package outside keeps pods that wait for quota outside of kube-scheduler's queue, which looks
// at each pod that it holds for every event, also where no event helps that pod.
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
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"berth.dev/berth/scheduler/devices"
	"berth.dev/berth/scheduler/quota"
)

// Queue is kube-scheduler's queue without the pods that wait for quota. It returns them to that
// queue when they are activated, as new pods: their attempts and the time for which they have been
// tried are counted from there. Until then the metrics of pending pods count them as gated.
//
// Its lock is taken before that of kube-scheduler's queue, and before that of the quotas.
type Queue struct {
	queue.SchedulingQueue
	pods  corelisters.PodLister
	quota *quota.Quota

	mu  sync.Mutex
	out map[types.UID]pod
}

// pod is what is known of a pod outside.
type pod struct{ namespace, name, scheduler string }

// Use has s keep its pods that wait for these quotas outside of its queue. It must be called before
// s runs, and before its informers do.
func Use(s *scheduler.Scheduler, pods corelisters.PodLister, q *quota.Quota) *Queue {
	o := &Queue{SchedulingQueue: s.SchedulingQueue, pods: pods, quota: q, out: map[types.UID]pod{}}
	s.SchedulingQueue = o
	for _, profile := range s.Profiles {
		profile.SetPodActivator(o)
	}
	q.Waiting = o.Take
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

// take is Take for one pod, with mu held. It reports whether the pod is outside then.
func (o *Queue) take(p *v1.Pod) bool {
	now, err := o.pods.Pods(p.Namespace).Get(p.Name)
	if err != nil || now.UID != p.UID || now.Spec.NodeName != "" || now.Status.NominatedNodeName != "" || now.Spec.SchedulingGroup != nil || !o.quota.Waits(now) {
		return false
	}
	if _, has := o.GetPod(p.Name, p.Namespace); !has {
		return false
	}
	o.SchedulingQueue.Delete(now)
	o.out[p.UID] = pod{p.Namespace, p.Name, p.Spec.SchedulerName}
	metrics.GatedPods().Inc()
	metrics.UnschedulableReason(devices.QueuesName, p.Spec.SchedulerName).Inc()
	return true
}

// leave forgets a pod, with mu held, and returns it as it was outside; the zero value is that it was not.
func (o *Queue) leave(uid types.UID) pod {
	was, there := o.out[uid]
	if there {
		delete(o.out, uid)
		metrics.GatedPods().Dec()
		metrics.UnschedulableReason(devices.QueuesName, was.scheduler).Dec()
	}
	return was
}

// Activate implements queue.SchedulingQueue: pods outside return, and are tried once, as the caller knows a
// reason: there is quota, or others may be evicted.
func (o *Queue) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	o.mu.Lock()
	o.quota.Retry(pods)
	for _, p := range pods {
		if _, there := o.out[p.UID]; there && o.quota.Lets(p.UID) {
			o.enter(klog.NewContext(context.Background(), logger), p)
		}
	}
	o.mu.Unlock()
	o.SchedulingQueue.Activate(logger, pods)
}

// enter returns a pod to the queue as the watch has it now, with mu held.
func (o *Queue) enter(ctx context.Context, p *v1.Pod) {
	was := o.leave(p.UID)
	if now, err := o.pods.Pods(was.namespace).Get(was.name); err == nil && now.UID == p.UID && now.Spec.NodeName == "" {
		o.SchedulingQueue.Update(ctx, now, now) // adds it, unless it is being tried
	}
}

// Update implements queue.SchedulingQueue. Changes of pods outside are read when these return.
func (o *Queue) Update(ctx context.Context, was, now *v1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if was != nil && now.UID != was.UID {
		o.leave(was.UID)
	}
	if _, there := o.out[now.UID]; !there {
		o.SchedulingQueue.Update(ctx, was, now)
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
	for uid, p := range o.out {
		if now, err := o.pods.Pods(p.namespace).Get(p.name); err == nil && now.UID == uid {
			pods = append(pods, now)
		}
	}
	return pods, fmt.Sprintf("%s; waiting for quota:%v", summary, len(o.out))
}
