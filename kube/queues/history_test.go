package queues_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

func TestHistory(t *testing.T) {
	noon := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	var list []*v1alpha1.Queue
	for _, name := range []string{"vision", "speech"} {
		q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}
		q.Spec.Namespaces = &v1alpha1.QueueNamespaces{Names: []string{name}}
		list = append(list, q)
	}
	namespaces := []*v1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "vision"}}, {ObjectMeta: metav1.ObjectMeta{Name: "speech"}}, {ObjectMeta: metav1.ObjectMeta{Name: "else"}}}
	pod := func(namespace, name, job string, gpus int64) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
		if job != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: job, UID: types.UID(job), Controller: new(true)}}
		}
		p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Limits: v1.ResourceList{api.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)}}}}
		if gpus == 0 {
			p.Spec.Containers[0].Resources.Limits = nil
		}
		return p
	}
	pods := []*v1.Pod{pod("speech", "asr-0", "asr", 1), pod("speech", "asr-1", "asr", 1), pod("speech", "web", "", 0), pod("else", "out", "", 1)}
	event := func(seconds int, kind, object, reason, message string) *v1.Event {
		namespace, name, _ := strings.Cut(object, "/")
		e := &v1.Event{Reason: reason, Message: message, EventTime: metav1.NewMicroTime(noon.Add(time.Duration(seconds) * time.Second))}
		e.InvolvedObject = v1.ObjectReference{Kind: kind, Namespace: namespace, Name: name, UID: types.UID(name)}
		return e
	}
	back := quota.Reclaim{From: "vision", By: "speech"}
	for _, tt := range []struct {
		name   string
		events []*v1.Event
		want   []string
	}{
		{"pods of a Job that are admitted together are one", []*v1.Event{
			event(0, "Pod", "speech/asr-0", "Scheduled", "on n1"), event(1, "Pod", "speech/asr-1", "Scheduled", "on n2"),
		}, []string{"12:00:01 speech Job speech/asr 2 Scheduled: on n2"}},
		{"a minute later is another time, and the last comes first", []*v1.Event{
			event(0, "Pod", "speech/asr-0", "Scheduled", "on n1"), event(60, "Pod", "speech/asr-1", "Scheduled", "on n2"),
		}, []string{"12:01:00 speech Job speech/asr 1 Scheduled: on n2", "12:00:00 speech Job speech/asr 1 Scheduled: on n1"}},
		{"pods without GPUs, of no queue, and other events do not count", []*v1.Event{
			event(0, "Pod", "speech/web", "Scheduled", "on n1"), event(0, "Pod", "else/out", "Scheduled", "on n1"), event(0, "Pod", "speech/asr-0", "Pulled", "x"),
		}, nil},
		{"that a pod which is gone was admitted is not known to be about GPUs", []*v1.Event{event(0, "Pod", "speech/gone", "Scheduled", "on n1")}, nil},
		{"a pod that is gone is of the queues that its eviction names", []*v1.Event{
			event(0, "Pod", "else/train-0", quota.ReasonReclaimed, "Evicted from node n1 to return quota: "+back.Sentence()),
		}, []string{"12:00:00 vision to speech Pod else/train-0 1 QuotaReclaimed: Evicted from node n1 to return quota: " + back.Sentence()}},
		{"and of the object that its controller's event is about", []*v1.Event{
			event(0, "Pod", "vision/train-0", quota.ReasonReclaimed, "Evicted from node n1 to return quota: "+back.Sentence()),
			event(0, "Job", "vision/train", quota.ReasonReclaimed, "its pod train-0 was "+back.OnNode("n1")),
		}, []string{"12:00:00 vision to speech Job vision/train 1 QuotaReclaimed: Evicted from node n1 to return quota: " + back.Sentence()}},
		{"a queue borrows", []*v1.Event{event(0, "Queue", "/vision", "Borrows", "the queue borrows 7")}, []string{"12:00:00 vision Borrows: the queue borrows 7"}},
		{"a notebook gives way", []*v1.Event{event(0, "Notebook", "vision/book", "GaveWay", "it did")}, []string{"12:00:00 vision Notebook vision/book 1 GaveWay: it did"}},
		{"an event of a series is of its last time", []*v1.Event{func() *v1.Event {
			e := event(0, "Pod", "speech/asr-0", "EvictionBlocked", "kept")
			e.Series = &v1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(noon.Add(time.Hour))}
			return e
		}()}, []string{"13:00:00 speech Job speech/asr 1 EvictionBlocked: kept"}},
	} {
		var got []string
		for _, h := range queues.History(queues.NewMembers(list), namespaces, pods, tt.events) {
			text := h.At.UTC().Format(time.TimeOnly) + " " + h.Queue
			if h.By != "" {
				text += " to " + h.By
			}
			if h.Pods > 0 {
				text += fmt.Sprintf(" %s %s %d", h.Owner.Kind, h.Owner, h.Pods)
			}
			got = append(got, text+" "+h.Reason+": "+h.Message)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.name, diff)
		}
	}
}
