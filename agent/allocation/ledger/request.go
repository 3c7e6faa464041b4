package ledger

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/agent/allocation/checkpoint"
	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// Request is a pod one of whose containers is about to start.
type Request struct {
	Pod       *v1.Pod
	Committed map[string][]sharing.Named // by container; nil: the scheduler has committed nothing
	Others    []*v1.Pod                  // the pods of the node; read only if Committed is nil
	Starting  []checkpoint.Entry         // of the container, or of several that use the same IDs one after the other
	All       []checkpoint.Entry         // of the pod
}

// uid returns the pod's UID as the kubelet has it.
func (q *Request) uid() string { return q.Starting[0].PodUID }

// Remembered returns the request of a pod that has started before, from its
// record, or nil: containers restart while the API server cannot be reached.
func (l *Ledger) Remembered(uid string) *Request {
	r := l.records[uid]
	if r == nil {
		return nil
	}
	q := &Request{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Pod, UID: types.UID(uid)}}}
	if r.Committed {
		q.Committed = map[string][]sharing.Named{}
		for i := range r.Containers {
			for _, d := range r.Containers[i].Devices {
				q.Committed[r.Containers[i].Name] = append(q.Committed[r.Containers[i].Name], sharing.Named{UUID: d.UUID, MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes})
			}
		}
	}
	return q
}

// Pending returns those of the pods that have a commitment and no record and have
// not ended: their containers have not started.
func (l *Ledger) Pending(pods []*v1.Pod) []*v1.Pod {
	var out []*v1.Pod
	for _, pod := range pods {
		if l.records[devices.HolderID(pod)] == nil && !request.Ended(pod) && pod.Annotations[api.AnnotationDevices] != "" {
			out = append(out, pod)
		}
	}
	return out
}

// SetDraining sets the GPUs and MIG devices, by UUID, that are unhealthy only
// because they are being drained, for instance to partition them. Pods that hold
// them may restart their containers.
func (l *Ledger) SetDraining(uuids map[string]bool) { l.draining = uuids }

// AllowOnDraining sets the pods, by UID, that may start on draining devices that
// were committed to them before; every other new pod is refused there.
func (l *Ledger) AllowOnDraining(uids map[string]bool) { l.mayDrain = uids }

// CheckHealthy refuses a container of a record with an unhealthy device, unless
// the device is only being drained.
func (l *Ledger) CheckHealthy(r *Record, c *Container) error {
	i := slices.IndexFunc(c.Devices, func(d Device) bool { return !l.healthy(&d) && !l.draining[d.UUID] })
	if i < 0 {
		return nil
	}
	return notice.Refuse(notice.ReasonUnhealthy, "device %s of container %s of pod %s/%s is unhealthy: the container starts automatically once it is healthy%s",
		c.Devices[i].UUID, c.Name, r.Namespace, r.Pod, notice.Reschedule)
}

// WithoutLimit returns what a pod holds by size, in bytes by GPU: nothing for a
// pod whose memory limits have been set, or reported as impossible.
func (l *Ledger) WithoutLimit(uid string) map[string]int64 {
	r := l.records[uid]
	if r == nil || r.limited {
		return nil
	}
	sums := map[string]int64{}
	for _, d := range r.devices() {
		if d.Resource == sharing.ResourceMemory {
			sums[d.UUID] += d.MemoryBytes
		}
	}
	return sums
}

// SetLimited marks the memory limits of a pod as done, so WithoutLimit returns
// nothing for it.
func (l *Ledger) SetLimited(uid string) {
	if r := l.records[uid]; r != nil {
		r.limited = true
	}
}
