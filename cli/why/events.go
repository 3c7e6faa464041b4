package why

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// eventsOf lists the events of objects of the namespace, each with name, kind and
// UID; none where they may not be read.
func (e *explainer) eventsOf(ctx context.Context, objects []v1.ObjectReference) ([]v1.Event, error) {
	var out []v1.Event
	for _, of := range objects {
		list, err := e.CoreV1().Events(e.namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
			"involvedObject.name": of.Name, "involvedObject.kind": of.Kind,
		}.AsSelector().String()})
		if apierrors.IsForbidden(err) {
			return out, nil
		}
		if err != nil {
			return nil, e.Failed("list events of "+of.Name, err)
		}
		for i := range list.Items {
			o := &list.Items[i].InvolvedObject
			if o.Name == of.Name && o.Kind == of.Kind && (o.UID == of.UID || o.UID == "") { // not of one that had the same name
				out = append(out, list.Items[i])
			}
		}
	}
	return out, nil
}

// lastEvents are the last of some events, oldest first. Some are timed in seconds.
// Within one, they stand in the order of their names, which end with the time.
func lastEvents(out []event) []event {
	slices.SortStableFunc(out, func(a, b event) int { return a.at.Truncate(time.Second).Compare(b.at.Truncate(time.Second)) })
	return out[max(0, len(out)-mostEvents):]
}

func eventOf(e *v1.Event) event {
	at := e.LastTimestamp.Time
	count := max(1, e.Count)
	if e.Series != nil {
		at, count = e.Series.LastObservedTime.Time, max(1, e.Series.Count)
	}
	for _, other := range []time.Time{e.EventTime.Time, e.CreationTimestamp.Time} {
		if at.IsZero() {
			at = other
		}
	}
	return event{At: at.UTC().Format(time.RFC3339), Type: e.Type, Reason: e.Reason, Message: e.Message, Count: count, at: at}
}
