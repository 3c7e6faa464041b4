package queues

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
)

// Reader reads objects of Kubernetes as quotas count them. Its functions must be quick,
// and are called from several goroutines.
type Reader struct {
	Queue func(*v1.Pod) string // "" is none
	User  func(*v1.Pod) string // "" is not known
	// Asks is User for a pod that asks for quota; it may ask the API server, once in a while. nil is
	// that User knows all.
	Asks func(*v1.Pod) string
	// Held is what a pod holds on its node; node may be nil.
	Held func(pod *v1.Pod, node string) []quota.Piece
	// Settled is Held where that does not depend on the devices that are committed to the pod later; nil if it may.
	Settled func(pod *v1.Pod, node string) []quota.Piece
	// Asked is what a pod asks for that may use GPUs in some ways, and the kinds of GPUs that it may
	// use; nil is any.
	Asked func(pod *v1.Pod, allowed sharing.Ways) (asked quota.Pod, kinds []quota.Kind)
	// Kind is what GPUs a node has.
	Kind func(*v1.Node) quota.Kind
	// Line returns the priority of an object in the line of its queue, as LinePriorities.Of does; nil
	// is that none is apart from that of pods.
	Line func(metav1.Object) *int32
	// Default returns the PriorityClass that a pod gets from its queue, as DefaultClasses.Of does, if there
	// is one of that name; nil is that queues have none.
	Default func(*v1.Pod) string
	// Labels are the node labels that quotas name.
	Labels []string
	// Owner is the UID of the object that makes a pod again when it has ended, as
	// kube/request.MakerOf returns it; nil is that none is known.
	Owner func(*v1.Pod) string
}

// UserToAsk returns the user of a pod that asks for quota.
func (r *Reader) UserToAsk(pod *v1.Pod) string {
	if r.Asks == nil {
		return r.User(pod)
	}
	return r.Asks(pod)
}

// PriorityInLine returns the priority of an object in the line of its queue; nil is none.
func (r *Reader) PriorityInLine(o metav1.Object) *int32 {
	if r.Line == nil {
		return nil
	}
	return r.Line(o)
}

// OwnerOf returns what Owner does; "" where it is nil.
func (r *Reader) OwnerOf(pod *v1.Pod) string {
	if r.Owner == nil {
		return ""
	}
	return r.Owner(pod)
}

// Reserved returns what a pod holds that gets a node, and whether it holds that whichever devices are committed to it.
func (r *Reader) Reserved(pod *v1.Pod, node string) (held []quota.Piece, settled bool) {
	if r.Settled != nil {
		held = r.Settled(pod, node)
	}
	if held != nil {
		return held, true
	}
	return r.Held(pod, node), false
}
