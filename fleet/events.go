package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The whole fleet may write this many events at once, and this many a second:
// events of thousands of pods that start together would cost more than the
// pods. Warnings have a bucket of their own.
const (
	eventBurst     = 200
	eventPerSecond = 20
	eventWriters   = 2
)

// events writes events in the background and drops those beyond its rate.
type events struct {
	client kubernetes.Interface
	now    func() time.Time
	queue  chan *v1.Event

	mu     sync.Mutex
	normal bucket
	warn   bucket
	serial int
}

func newEvents(client kubernetes.Interface, now func() time.Time) *events {
	return &events{
		client: client, now: now, queue: make(chan *v1.Event, 4*eventBurst),
		normal: bucket{tokens: eventBurst}, warn: bucket{tokens: eventBurst},
	}
}

// bucket is a token bucket of eventBurst and eventPerSecond.
type bucket struct {
	tokens float64
	at     time.Time
}

func (b *bucket) take(now time.Time) bool {
	if !b.at.IsZero() {
		b.tokens = min(eventBurst, b.tokens+now.Sub(b.at).Seconds()*eventPerSecond)
	}
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// pod writes an event about a pod, and within it a container of that field path.
func (e *events) pod(p *v1.Pod, node, kind, reason, message, field string) {
	e.add(p.Namespace, v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name, UID: p.UID,
		ResourceVersion: p.ResourceVersion, FieldPath: field,
	}, v1.EventSource{Component: "kubelet", Host: node}, kind, reason, message)
}

// add queues an event if the rate allows it.
func (e *events) add(namespace string, about v1.ObjectReference, from v1.EventSource, kind, reason, message string) {
	now := e.now()
	e.mu.Lock()
	b := &e.normal
	if kind == v1.EventTypeWarning {
		b = &e.warn
	}
	ok := b.take(now)
	e.serial++
	name := fmt.Sprintf("%s.%x%04x", about.Name, now.UnixNano(), e.serial&0xffff)
	e.mu.Unlock()
	if !ok {
		return
	}
	at := metav1.NewTime(now)
	ev := &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
		InvolvedObject: about, Reason: reason, Message: message, Type: kind, Source: from,
		FirstTimestamp: at, LastTimestamp: at, Count: 1, ReportingController: from.Component, ReportingInstance: from.Host,
	}
	select {
	case e.queue <- ev:
	default:
	}
}

// run writes events until ctx ends. What cannot be written is lost, as with a
// kubelet.
func (e *events) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-e.queue:
			_, _ = e.client.CoreV1().Events(ev.Namespace).Create(ctx, ev, metav1.CreateOptions{})
		}
	}
}

// event writes an event about the node.
func (n *node) event(kind, reason, message string) {
	n.fleet.events.add(metav1.NamespaceDefault, v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: n.name, UID: "" + n.uid()},
		v1.EventSource{Component: "kubelet", Host: n.name}, kind, reason, message)
}

// event writes an event about the pod, or one container of it.
func (p *pod) event(kind, reason, message string, c *container) {
	field := ""
	if c != nil {
		list := ""
		switch c.role {
		case roleApp:
			list = "containers"
		case roleInit, roleSidecar:
			list = "initContainers"
		case roleEphemeral:
			list = "ephemeralContainers"
		}
		field = "spec." + list + "{" + c.spec.Name + "}"
	}
	p.node.fleet.events.pod(p.api, p.node.name, kind, reason, message, field)
}
