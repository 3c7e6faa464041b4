package notice

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Events sends events: kind is "Normal" or "Warning", reason is in CamelCase, and
// message is a sentence. A nil function drops them.
type Events struct {
	OnPod  func(pod *v1.Pod, kind, reason, message string)
	OnNode func(kind, reason, message string)
}

func (e Events) pod(pod *v1.Pod, kind, reason, message string) {
	if e.OnPod != nil {
		e.OnPod(pod, kind, reason, message)
	}
}

// NoMemoryLimit says that the driver does not limit a pod to its share of a GPU's
// memory, and why.
func (e Events) NoMemoryLimit(pod *v1.Pod, uuid string, bytes int64, why error) {
	e.pod(pod, v1.EventTypeNormal, "NoMemoryLimit", fmt.Sprintf("the pod is not limited to its %d MiB of GPU %s: %v", bytes>>20, uuid, why))
}

// GivenDevicesUnknown says that the node offers no GPU, because the devices that
// other plugins allocated cannot be read.
func (e Events) GivenDevicesUnknown(why error) {
	if e.OnNode != nil {
		e.OnNode(v1.EventTypeWarning, "GivenDevicesUnknown", "this node offers no GPUs: "+why.Error())
	}
}
