package state

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// Request is what the pod of a scheduling cycle asks for.
type Request struct {
	Parts []sharing.Part
	shape string // equal for pods that ask for the same devices
	Class string // equal for pods that may use the same nodes: see classKey
	// simple says that request describes all that the pod needs. Other pods are
	// looked at by every plugin on every node.
	Simple  bool
	Request cluster.Request // set when the view is known
	Node    string          // the one node that PreFilter left; "" is all
	Yields  bool            // another pod of its line comes first on that node
	Whole   bool            // PreFilter left out the nodes with shares alone, which come last
	Hold    *Hold           // what is held for the pod, if anything
	Devices bool            // the pod asks for devices
	Queue   string          // whose quota the pod counts on; "" is none
	Barred  sharing.Ways    // in which the pod must not use GPUs
	Refused bool            // its queue has not enough quota left: room must be made
	Pools   string          // equal for pods that may use the same nodes by their quotas; "" is all, or by products alone
}

// DevicesName is the name, in the scheduler's configuration, of the plugin that
// chooses devices.
const DevicesName = "BerthDevices"

// RequestKey is where PreFilter keeps the Request of the pod that is being scheduled.
const RequestKey fwk.StateKey = DevicesName

// Clone implements fwk.StateData; after PreFilter a Request never changes.
func (w *Request) Clone() fwk.StateData { return w }

// RequestOf returns the Request that PreFilter kept, and whether there is one.
func RequestOf(state fwk.CycleState) (*Request, bool) {
	data, err := state.Read(RequestKey)
	if err != nil {
		return nil, false
	}
	w, ok := data.(*Request)
	return w, ok
}

// NewRequest reads a pod whose containers ask for parts.
func NewRequest(pod *v1.Pod, parts []sharing.Part) *Request {
	w := &Request{Parts: parts, Devices: len(parts) > 0, Simple: request.Simple(pod, parts)}
	var shape strings.Builder
	for i := range parts {
		fmt.Fprint(&shape, parts[i].HandsOn, parts[i].Asks, ";")
	}
	w.shape = shape.String()
	w.Class = classKey(pod, w)
	return w
}

// least is the GiB that each GPU must have, or 0.
func (w *Request) least() int64 {
	for i := range w.Parts {
		for _, a := range w.Parts[i].Asks {
			if a.LeastGiB > 0 {
				return a.LeastGiB
			}
		}
	}
	return 0
}

// Demand is what pod asks of any node, but for its class.
func (w *Request) Demand(pod *v1.Pod, s *cluster.Snapshot) cluster.Request {
	r := request.Demand(pod, gpu.Sharing{})
	r.Units = r.IsWhole()
	r.SharesDo = r.Units && r.GPUs > 1 && request.SharesDo(pod, w.Parts)
	if least := w.least(); least > 0 {
		r.Products = s.ProductsWith(least * sharing.GiB)
	}
	return r
}

// Resources lists the GPU resources that a node must offer for w, sorted. Names
// that only people write (annotations, the spellings of other programs) are not
// offered by any node.
func (w *Request) Resources() []string {
	var out []string
	for i := range w.Parts {
		for _, a := range w.Parts[i].Asks {
			if _, _, share := a.ShareOf(); (!share || a.Resource == api.ResourceGPUMemory) && !slices.Contains(out, a.Resource) {
				out = append(out, a.Resource)
			}
		}
	}
	slices.Sort(out)
	return out
}

// BySize says whether w asks for a share of a GPU by its size.
func (w *Request) BySize() bool {
	for i := range w.Parts {
		for _, a := range w.Parts[i].Asks {
			if _, _, share := a.ShareOf(); share {
				return true
			}
		}
	}
	return false
}

// classKey is equal for pods of one class.
func classKey(pod *v1.Pod, w *Request) string {
	b := make([]byte, 0, 256)
	add := func(s string) { b = append(append(b, s...), 0) }
	keys := make([]string, 0, len(pod.Spec.NodeSelector))
	for k := range pod.Spec.NodeSelector {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		add(k)
		add(pod.Spec.NodeSelector[k])
	}
	b = append(b, 1)
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		if raw, err := a.NodeAffinity.Marshal(); err == nil {
			b = append(b, raw...)
		}
	}
	b = append(b, 1)
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		add(t.Key)
		add(string(t.Operator))
		add(t.Value)
		add(string(t.Effect))
	}
	b = append(b, 1)
	for _, name := range w.Resources() {
		add(name)
	}
	if w.BySize() {
		b = append(b, 2)
	}
	if list := pod.Annotations[api.AnnotationDataset]; list != "" {
		b = append(b, 1)
		add(list)
	}
	return string(b)
}
