package devices

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube"
)

// join tells the book of one more profile. With the first it begins to watch pods.
func (b *gangBook) join(ctx context.Context, h fwk.Handle, d *desk) error {
	b.mu.Lock()
	first := len(b.names) == 0
	b.names[h.ProfileName()] = true
	b.mu.Unlock()
	if !first {
		return nil
	}
	log := klog.FromContext(ctx)
	b.desk = d
	d.keeps, d.answered = b.keeps, b.answered
	b.voice = newGangVoice(ctx, b, h)
	b.wake = func(pods []*v1.Pod) {
		byName := make(map[string]*v1.Pod, len(pods))
		for _, p := range pods {
			byName[p.Namespace+"/"+p.Name] = p
		}
		h.Activate(log, byName)
	}
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
	b.sizes.open(ctx, h.KubeConfig(), b.resized)
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

// resized looks at the gangs that are counted by objects of a kind, after one of
// them has changed. An empty name is any.
func (b *gangBook) resized(kind kube.GangKind, namespace, name string) {
	var after aftermath
	b.mu.Lock()
	for _, t := range b.teams {
		if o := t.gang.Object; o != nil && o.Kind == kind && (name == "" || o.Namespace == namespace && o.Name == name) {
			after.add(b.turn(t))
		}
	}
	b.mu.Unlock()
	b.do(after)
}
