package gang

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/gang/conditions"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/queue"
)

// join tells the Manager of one more profile. With the first it begins to watch pods.
func (b *Manager) join(ctx context.Context, h fwk.Handle, d *nodeindex.Cluster) error {
	b.mu.Lock()
	first := len(b.names) == 0
	b.names[h.ProfileName()] = true
	b.mu.Unlock()
	if !first {
		return nil
	}
	log := klog.FromContext(ctx)
	b.state, b.ctx = d, ctx
	d.Keeps, d.Answered, d.Waiting.Ticket, d.Clear = b.keeps, b.answered, b.ticketOf, b.clear
	b.client = h.ClientSet()
	b.conditions = conditions.New(ctx, h.ClientSet(), h.EventRecorder(), b.remarks, b.still)
	b.wake = func(pods []*v1.Pod) { queue.Activate(h, log, pods...) }
	b.let = func(uid types.UID) {
		if w := h.GetWaitingPod(uid); w != nil {
			w.Allow(GangsName)
		}
	}
	b.reject = func(uid types.UID, text string) {
		if w := h.GetWaitingPod(uid); w != nil {
			w.Reject(GangsName, text)
		}
	}
	b.sizes.Open(ctx, h.KubeConfig(), b.resized)
	_, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(pod any) { b.saw(pod.(*v1.Pod)) },
		UpdateFunc: func(_, pod any) { b.saw(pod.(*v1.Pod)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				b.forget(pod.UID)
			}
		},
	})
	return err
}

// saw takes a pod as the watch has it.
func (b *Manager) saw(pod *v1.Pod) {
	ref, err := request.GangOf(pod)
	b.mu.Lock()
	if _, knows := b.machine.Gang(string(pod.UID)); !knows && ref == nil && err == nil {
		b.mu.Unlock()
		return
	}
	var do actions
	if ref != nil && b.counts(pod) {
		b.pods[pod.UID] = pod
		do = b.step(gang.Seen{Pod: b.member(pod, ref, err)})
	} else {
		if ref != nil && pod.Status.Phase == v1.PodSucceeded {
			b.completed[pod.UID] = done{ref.Key, pod.Name}
		}
		delete(b.pods, pod.UID)
		do = b.step(gang.Left{UID: string(pod.UID)})
	}
	b.mu.Unlock()
	b.do(&do)
}

// forget takes a pod that is gone.
func (b *Manager) forget(uid types.UID) {
	b.mu.Lock()
	delete(b.pods, uid)
	delete(b.completed, uid)
	do := b.step(gang.Gone{UID: string(uid)})
	b.mu.Unlock()
	b.do(&do)
}

// admit says why a pod must not enter the queue yet; "" lets it in.
func (b *Manager) admit(pod *v1.Pod) string {
	ref, err := request.GangOf(pod)
	if ref == nil && err == nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.counts(pod) {
		return ""
	}
	b.pods[pod.UID] = pod
	do := b.step(gang.Enqueue{Pod: b.member(pod, ref, err)})
	b.rankedLater(&do)
	return do.Answer.Reason
}

// counts reports whether a pod is one that its gang can count on, with mu held: it
// is not going, waits for no gate, and is not for another scheduler.
func (b *Manager) counts(pod *v1.Pod) bool {
	switch {
	case pod.DeletionTimestamp != nil, request.Ended(pod):
		return false
	case pod.Spec.NodeName == "":
		return len(pod.Spec.SchedulingGates) == 0 && b.names[pod.Spec.SchedulerName]
	}
	return true
}

// member is a pod as the machine knows it, with mu held.
func (b *Manager) member(pod *v1.Pod, ref *request.Gang, err error) gang.Pod {
	m := gang.Pod{Age: request.AgeOf(pod), Name: pod.Name, Priority: request.Priority(pod), Milli: request.FreedMilli(pod), Node: pod.Spec.NodeName}
	m.Gang = gang.Spec{Key: ref.Key, Name: ref.Name, Within: ref.Within, Least: ref.MinCount, Grace: ref.Grace}
	m.Replaced = request.Replaceable(pod)
	if ref.Object != nil {
		m.Gang.Source = *ref.Object
		m.Gang.Least, m.Gang.Unknown = b.sizes.Of(*ref.Object)
		m.Age = m.Age.AsOldAs(b.sizes.Since(*ref.Object))
	}
	if err != nil {
		m.Invalid = err.Error()
	}
	return m
}

// resized looks at the gangs that are counted by objects of a kind, after one of
// them has changed. An empty name is any.
func (b *Manager) resized(kind request.GangKind, namespace, name string) {
	var all []actions
	b.mu.Lock()
	done := map[request.GangObject]bool{}
	for _, source := range b.machine.Sources() {
		o := source.(request.GangObject)
		if o.Kind != kind || name != "" && (o.Namespace != namespace || o.Name != name) || done[o] {
			continue
		}
		done[o] = true
		least, why := b.sizes.Of(o)
		all = append(all, b.step(gang.Sized{Source: o, Least: least, Unknown: why}))
	}
	if name == "" { // their ages may have become known too
		for _, pod := range b.pods {
			if ref, err := request.GangOf(pod); ref != nil && ref.Object != nil && ref.Object.Kind == kind {
				all = append(all, b.step(gang.Seen{Pod: b.member(pod, ref, err)}))
			}
		}
	}
	b.mu.Unlock()
	for i := range all {
		b.do(&all[i])
	}
}
