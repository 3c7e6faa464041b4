// Package record is what a node agent keeps of pods that held GPUs of its node and are gone: a ledger that
// was not there asks for it. The agent writes it, and the meter reads it.
package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Path is where an agent serves its record, beside its metrics; the query "since" is a time in RFC 3339.
const Path = "/record"

// Gone is a pod that is gone: one line of a record.
type Gone struct {
	At  time.Time `json:"at"` // when the API server had it no longer, by the clock of its node
	Pod *v1.Pod   `json:"pod"`
}

// Slim keeps of a pod what says whose it is, which GPUs it held, and from when until when.
func Slim(p *v1.Pod) *v1.Pod {
	out := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, CreationTimestamp: p.CreationTimestamp, DeletionTimestamp: p.DeletionTimestamp,
			Labels: p.Labels, Annotations: map[string]string{}, OwnerReferences: p.OwnerReferences,
		},
		Spec: v1.PodSpec{NodeName: p.Spec.NodeName, SchedulerName: p.Spec.SchedulerName, PriorityClassName: p.Spec.PriorityClassName, Priority: p.Spec.Priority, Overhead: p.Spec.Overhead},
		Status: v1.PodStatus{
			Phase: p.Status.Phase, Conditions: p.Status.Conditions,
			ContainerStatuses: ends(p.Status.ContainerStatuses), InitContainerStatuses: ends(p.Status.InitContainerStatuses),
		},
	}
	for name, value := range p.Annotations {
		if name != v1.LastAppliedConfigAnnotation {
			out.Annotations[name] = value
		}
	}
	out.Spec.InitContainers, out.Spec.Containers = Asks(p.Spec.InitContainers), Asks(p.Spec.Containers)
	return out
}

// Asks keeps of containers what they ask for.
func Asks(list []v1.Container) []v1.Container {
	var out []v1.Container
	for i := range list {
		out = append(out, v1.Container{Name: list[i].Name, Resources: list[i].Resources, RestartPolicy: list[i].RestartPolicy})
	}
	return out
}

func ends(list []v1.ContainerStatus) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for i := range list {
		out = append(out, v1.ContainerStatus{Name: list[i].Name, State: v1.ContainerState{Terminated: list[i].State.Terminated}})
	}
	return out
}

// Write returns the line of a pod that is gone, with a newline.
func Write(g Gone) ([]byte, error) {
	raw, err := json.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("write down that pod %s/%s is gone: %w", g.Pod.Namespace, g.Pod.Name, err)
	}
	return append(raw, '\n'), nil
}

// WriteNow returns the line, with a newline, by which a node says what time it is there: its clock may be wrong.
func WriteNow(now time.Time) []byte {
	return []byte(`{"now":"` + now.UTC().Format(time.RFC3339Nano) + "\"}\n")
}

// Read returns the pods that lines of a record have, in their order, and what time it was on the node when it sent them; zero is that it does
// not say. A line that cannot be read, as one that was being written when the node lost power, costs that line.
func Read(raw []byte) (gone []Gone, now time.Time) {
	for line := range bytes.Lines(raw) {
		var is struct {
			Gone
			Now time.Time `json:"now"`
		}
		switch err := json.Unmarshal(line, &is); {
		case err != nil:
		case !is.Now.IsZero():
			now = is.Now
		case is.Pod != nil && is.Pod.UID != "" && !is.At.IsZero():
			gone = append(gone, is.Gone)
		}
	}
	return gone, now
}
