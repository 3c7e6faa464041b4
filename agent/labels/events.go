package labels

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/flowcontrol"
)

// EventsOptions say where events go. Client and Node are needed.
type EventsOptions struct {
	Client corev1.EventsGetter
	Node   string       // name
	Log    *slog.Logger // of events that are lost; nil is none
}

// Events writes events of a node and its pods. What is said again of the same
// object is counted on the event that is there, at most once in five minutes.
// OnNode and OnPod never wait; Run writes. Safe for concurrent use.
type Events struct {
	o     EventsOptions
	queue chan v1.Event
	limit flowcontrol.RateLimiter
	now   func() time.Time

	mu   sync.Mutex
	said map[string]*saying
	keys []string // of said, oldest first
}

// saying is one sentence about one object.
type saying struct {
	name, namespace string
	count           int32
	first, written  time.Time
}

const (
	mostQueued  = 64
	mostSayings = 512
	// repeat is how long a repeated event is only counted in memory.
	repeat = 5 * time.Minute
)

// NewEvents makes an Events. Nothing is written before Run.
func NewEvents(o EventsOptions) *Events {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Events{
		o: o, queue: make(chan v1.Event, mostQueued), said: map[string]*saying{},
		limit: flowcontrol.NewTokenBucketRateLimiter(1, 30), // events a second, at once
		now:   time.Now,
	}
}

// OnNode tells of the node. kind is v1.EventTypeNormal or v1.EventTypeWarning,
// reason a CamelCase word, message a sentence or two.
func (e *Events) OnNode(kind, reason, message string) {
	// The kubelet's way to name a node: kubectl describe looks for it.
	ref := v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.o.Node, UID: types.UID(e.o.Node)}
	e.put(ref, metav1.NamespaceDefault, kind, reason, message)
}

// OnPod tells of a pod.
func (e *Events) OnPod(pod *v1.Pod, kind, reason, message string) {
	ref := v1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
	e.put(ref, pod.Namespace, kind, reason, message)
}

// longest is the most characters of a message that the API server takes.
const longest = 1024

func (e *Events) put(ref v1.ObjectReference, namespace, kind, reason, message string) {
	now := metav1.NewTime(e.now())
	if len(message) > longest {
		message = message[:longest]
	}
	event := v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace},
		InvolvedObject: ref, Type: kind, Reason: reason, Message: message,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: v1.EventSource{Component: Manager, Host: e.o.Node}, ReportingController: Manager, ReportingInstance: e.o.Node,
	}
	select {
	case e.queue <- event:
	default:
		e.o.Log.Warn("dropped an event: too many are waiting", "reason", reason, "object", ref.Name)
	}
}

// Run writes events until ctx ends.
func (e *Events) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-e.queue:
			if err := e.write(ctx, event); err != nil && ctx.Err() == nil {
				e.o.Log.Warn("dropped an event", "reason", event.Reason, "object", event.InvolvedObject.Name, "error", err)
			}
		}
	}
}

// write creates an event, or counts it on the one that is there.
func (e *Events) write(ctx context.Context, event v1.Event) error {
	s, fresh, due := e.note(event)
	if !due {
		return nil
	}
	if !e.limit.TryAccept() {
		return fmt.Errorf("too many events of this node at once")
	}
	if !fresh {
		body, err := json.Marshal(map[string]any{"count": s.count, "lastTimestamp": event.LastTimestamp})
		if err != nil {
			return err
		}
		_, err = e.o.Client.Events(s.namespace).Patch(ctx, s.name, types.MergePatchType, body, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) { // events live for an hour
			return err
		}
	}
	event.Name, event.Count, event.FirstTimestamp = s.name, s.count, metav1.NewTime(s.first)
	_, err := e.o.Client.Events(s.namespace).Create(ctx, &event, metav1.CreateOptions{})
	return err
}

// note counts an event, and reports whether it is new and whether it is to be
// written now.
func (e *Events) note(event v1.Event) (s saying, fresh, due bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := fmt.Sprint(event.InvolvedObject.Kind, event.InvolvedObject.UID, event.Type, event.Reason, event.Message)
	now := event.LastTimestamp.Time
	old := e.said[key]
	if old == nil {
		if len(e.keys) >= mostSayings {
			delete(e.said, e.keys[0])
			e.keys = e.keys[1:]
		}
		h := fnv.New64a()
		h.Write([]byte(key)) // never an error, says package hash
		old = &saying{
			name:      fmt.Sprintf("%s.%x%x", event.InvolvedObject.Name, now.UnixNano(), h.Sum64()&0xffff),
			namespace: event.Namespace, first: now,
		}
		e.said[key] = old
		e.keys = append(e.keys, key)
		fresh = true
	}
	old.count++
	if due = fresh || now.Sub(old.written) >= repeat; due {
		old.written = now
	}
	return *old, fresh, due
}
