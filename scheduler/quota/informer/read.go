package informer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/core/user"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// Apply has pods counted by these Queues, and by no others.
func (w *Informer) Apply(list []*v1alpha1.Queue) {
	w.mu.Lock()
	w.list = list
	if len(list) == 0 {
		w.offers, w.members, w.asking = nil, nil, nil
	} else if w.offers == nil {
		w.offers = &queues.Offers{}
		w.offers.Count(list)
		all, _ := w.nodes.List(labels.Everything()) // a store of this process
		for _, node := range all {
			w.offers.Set(node)
		}
	}
	w.perUser.Store(slices.ContainsFunc(list, func(q *v1alpha1.Queue) bool { return len(q.Spec.PerUser) > 0 || q.Spec.Order == v1alpha1.OrderFair }))
	var specs []quota.Spec
	read := queues.Reader{Queue: w.queue, User: w.user, Asks: w.userToAsk, Held: w.held, Settled: w.settled, Asked: w.asked, Kind: w.kind, Owner: w.owner, Line: w.line}
	if len(list) > 0 {
		w.members = queues.NewMembers(list).In(queues.Around{Owners: w.owners.of, Kueue: w.kueue.Runs})
		w.asking = w.members.In(queues.Around{Owners: w.owners.find, Kueue: w.kueue.Runs})
		if defaults, _ := queues.NewDefaultClasses(list, func(string) bool { return true }); len(defaults) > 0 {
			read.Default = func(pod *v1.Pod) string { return defaults.Of(pod, w.atCreation(pod)) }
		}
		w.offers.Count(list)
		read.Labels = w.offers.Labels()
		specs, _ = queues.Specs(list, w.offers.Products()...)
	}
	w.mu.Unlock()
	w.quota.SetQueues(specs, read)
	w.quota.SetUsed(list)
	if len(list) > 0 && w.startLines != nil {
		w.hasLines.Do(w.startLines)
	}
}

// situation is Quota.Situation.
func (w *Informer) situation() *queues.Situation {
	w.mu.Lock()
	list := w.list
	w.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	spaces, _ := w.namespaces.List(labels.Everything()) // a store of this process
	return &queues.Situation{
		Queues: list, Namespaces: spaces, User: w.user, Least: w.quota.Least, Owners: w.owners.of, Kueue: w.kueue.Runs,
		Line: func(o metav1.Object) *int32 {
			if lines := w.lines.Load(); lines != nil {
				return lines.Of(o, w.owners.of)
			}
			return nil
		},
	}
}

// queue is Reader.Queue.
func (w *Informer) queue(pod *v1.Pod) string {
	w.mu.Lock()
	members := w.members
	if pod.Spec.NodeName == "" { // it asks for quota
		members = w.asking
	}
	w.mu.Unlock()
	if members == nil {
		return ""
	}
	return members.QueueOf(pod, w.namespace(pod))
}

// atCreation is the queue whose class a pod gets.
func (w *Informer) atCreation(pod *v1.Pod) string {
	w.mu.Lock()
	members := w.members
	w.mu.Unlock()
	if members == nil {
		return ""
	}
	return members.AtCreation(pod, w.namespace(pod))
}

// namespace is that of a pod; nil is that it is not known.
func (w *Informer) namespace(pod *v1.Pod) *v1.Namespace {
	ns, err := w.namespaces.Get(pod.Namespace)
	if err != nil {
		return nil
	}
	return ns
}

// user is Reader.User: as limits count it. Pods are not read for it where no queue counts
// users.
func (w *Informer) user(pod *v1.Pod) string { return w.userBy(pod, w.owners.of) }

// userToAsk is Reader.Asks.
func (w *Informer) userToAsk(pod *v1.Pod) string { return w.userBy(pod, w.owners.find) }

func (w *Informer) userBy(pod *v1.Pod, owners request.Owners) string {
	if !w.perUser.Load() {
		return ""
	}
	return user.CountedAs(request.UserOf(pod, owners))
}

// owner is Reader.Owner.
func (w *Informer) owner(pod *v1.Pod) string { return request.MakerOf(pod, w.owners.of) }

// line is Reader.Line.
func (w *Informer) line(o metav1.Object) *int32 {
	if lines := w.lines.Load(); lines != nil {
		return lines.Of(o, w.owners.find)
	}
	return nil
}

// held is Reader.Held.
func (w *Informer) held(pod *v1.Pod, node string) []quota.Piece {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.offers == nil {
		return nil
	}
	return w.offers.HeldOn(pod, cmp.Or(pod.Spec.NodeName, node))
}

// settled is Reader.Settled.
func (w *Informer) settled(pod *v1.Pod, node string) []quota.Piece {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.offers == nil {
		return nil
	}
	return w.offers.Settled(pod, node)
}

// asked is Reader.Asked.
func (w *Informer) asked(pod *v1.Pod, allowed sharing.Ways) (quota.Pod, []quota.Kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.offers == nil {
		return quota.Pod{ID: string(pod.UID)}, nil
	}
	return queues.Asked(pod, w.offers, allowed)
}

// kind is Reader.Kind.
func (w *Informer) kind(node *v1.Node) quota.Kind {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.offers == nil {
		return quota.Kind{}
	}
	return w.offers.KindOf(node)
}

// changedIf has the queues read again if a node or a namespace has changed so that pods
// count otherwise.
func (w *Informer) changedIf(old, now any) {
	switch now := now.(type) {
	case *v1.Node:
		w.mu.Lock()
		changed := w.offers != nil && w.offers.Set(now)
		w.mu.Unlock()
		if changed {
			w.changed()
		}
	case *v1.Namespace:
		if was, ok := old.(*v1.Namespace); !ok || !maps.Equal(was.Labels, now.Labels) {
			w.changed()
		}
	}
}

// gone takes a node or a namespace that is deleted.
func (w *Informer) gone(obj any) {
	if node, ok := obj.(*v1.Node); ok {
		w.mu.Lock()
		changed := w.offers != nil && w.offers.Remove(node.Name)
		w.mu.Unlock()
		if !changed {
			return
		}
	}
	w.changed()
}

// gather is how long changes are gathered before the queues are read again.
const gather = 50 * time.Millisecond

// changed has the queues read again soon.
func (w *Informer) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.store != nil && w.timer == nil {
		w.timer = time.AfterFunc(gather, w.read)
	}
}

// read reads the queues.
func (w *Informer) read() {
	w.mu.Lock()
	store := w.store
	w.timer = nil
	w.mu.Unlock()
	w.Apply(decode(store.List()...))
}

// decode reads Queues. One that cannot be read is left out, and said.
func decode(objects ...any) (list []*v1alpha1.Queue) {
	for _, obj := range objects {
		queue := &v1alpha1.Queue{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.(*unstructured.Unstructured).Object, queue); err != nil {
			klog.Background().Error(fmt.Errorf("read queue: %w", err), "A Queue is left out")
			continue
		}
		list = append(list, queue)
	}
	return list
}
