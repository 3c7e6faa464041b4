package client

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"berth.dev/berth/kube/queues"
)

// usual are reasons of most events of a cluster, which have nothing to do with queues: the API server leaves
// them out.
var usual = []string{
	"Pulling", "Pulled", "Created", "Started", "Killing", "BackOff", "FailedScheduling", "Unhealthy", "FailedMount", "SuccessfulCreate",
	"SuccessfulDelete", "ScalingReplicaSet", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID",
}

// QueueEvents lists the events of a namespace, "" for all, that queues.History reads.
func (c *Cluster) QueueEvents(ctx context.Context, namespace string) ([]*v1.Event, error) {
	var but []fields.Selector
	for _, reason := range usual {
		but = append(but, fields.OneTermNotEqualSelector("reason", reason))
	}
	return paged(metav1.ListOptions{FieldSelector: fields.AndSelectors(but...).String()}, func(o metav1.ListOptions) ([]v1.Event, string, error) {
		list, err := c.CoreV1().Events(namespace).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return list.Items, list.Continue, nil
	}, func(e *v1.Event) *v1.Event {
		if queues.EventReasons[e.Reason] == "" {
			return nil
		}
		e = e.DeepCopy() // the rest of its page can be freed
		e.ManagedFields = nil
		return e
	})
}
