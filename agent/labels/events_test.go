package labels_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/agent/labels"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// run lets Events write until the test ends. now may be changed between events
// that the server has.
func run(t *testing.T, s *server, now *time.Time) *labels.Events {
	e := labels.NewEvents(labels.EventsOptions{Client: s.client(), Node: "n1"})
	e.SetClock(func() time.Time { return *now })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { e.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return e
}

func (s *server) list() []v1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]v1.Event(nil), s.events...)
}

func TestEventsAreWhereKubectlLooks(t *testing.T) {
	s, now := newServer(t), start
	e := run(t, s, &now)
	e.OnNode(v1.EventTypeWarning, "GPUXid", "GPU 0: Xid 79")
	<-s.posted
	e.OnPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}, v1.EventTypeNormal, "GPUXid", strings.Repeat("x", 2000))
	<-s.posted
	got := s.list()
	node, pod := got[0], got[1]
	if o := node.InvolvedObject; node.Namespace != "default" || o.Kind != "Node" || o.Name != "n1" || o.UID != "n1" || node.Type != "Warning" || node.Count != 1 {
		t.Errorf("of the node: %+v", node)
	}
	if o := pod.InvolvedObject; pod.Namespace != "ns" || o.Kind != "Pod" || o.UID != "u" || len(pod.Message) != 1024 || pod.Source.Component != "berth-agent" || pod.Source.Host != "n1" {
		t.Errorf("of the pod: %+v", pod)
	}
	if !strings.HasPrefix(node.Name, "n1.") || !strings.HasPrefix(pod.Name, "p.") {
		t.Errorf("names %s, %s", node.Name, pod.Name)
	}
}

func TestWhatIsSaidAgainIsCounted(t *testing.T) {
	s, now := newServer(t), start
	e := run(t, s, &now)
	say := func(message string) { e.OnNode(v1.EventTypeWarning, "GPUXid", message) }
	say("Xid 48")
	<-s.posted
	for range 9 {
		say("Xid 48") // within five minutes: only counted
	}
	say("Xid 79") // another: written, and after the nine
	<-s.posted
	if got := s.list(); len(got) != 2 || got[0].Count != 1 || got[1].Message != "Xid 79" {
		t.Fatalf("events: %+v", got)
	}
	now = start.Add(6 * time.Minute)
	say("Xid 48")
	<-s.posted
	got := s.list()
	if len(got) != 2 || got[0].Count != 11 || !got[0].LastTimestamp.Time.Equal(now) || !got[0].FirstTimestamp.Time.Equal(start) {
		t.Errorf("events: %+v", got)
	}
	s.mu.Lock()
	s.events = nil // an hour later they are gone
	s.mu.Unlock()
	now = start.Add(2 * time.Hour)
	say("Xid 48")
	<-s.posted
	if got := s.list(); len(got) != 1 || got[0].Count != 12 || !got[0].FirstTimestamp.Time.Equal(start) {
		t.Errorf("events: %+v", got)
	}
}

func TestAFloodOfEventsIsBounded(t *testing.T) {
	s, now, begun := newServer(t), start, time.Now()
	e := labels.NewEvents(labels.EventsOptions{Client: s.client(), Node: "n1"})
	e.SetClock(func() time.Time { return now })
	for i := range 1000 {
		e.OnNode(v1.EventTypeWarning, "GPUXid", fmt.Sprint("Xid ", i)) // nobody writes: must not wait
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { e.Run(ctx); close(done) }()
	for range 30 {
		<-s.posted
	}
	cancel()
	<-done
	// Thirty at once, and one more for each second that this machine took.
	if got, most := len(s.list()), 31+int(time.Since(begun).Seconds()); got < 30 || got > most {
		t.Errorf("%d events were written, want 30 to %d", got, most)
	}
}

func TestXidEvent(t *testing.T) {
	g := nvml.GPU{GPU: gpu.GPU{Index: 3, UUID: "GPU-3", MIG: []gpu.MIGDevice{{UUID: "MIG-a", Profile: "1g.10gb", GI: 7}}}}
	snap := nvml.Snapshot{GPUs: []nvml.GPU{g}}
	for _, c := range []struct {
		name  string
		event nvml.Event
		want  string
	}{
		{"a GPU's", nvml.Event{UUID: "GPU-3", Xid: 48, GI: -1}, "Warning GPUXid GPU 3 (GPU-3): Xid 48, double bit ECC error: Memory was corrupted in a way that cannot be corrected. Drain the GPU and reset it, or restart the node."},
		{"an application's", nvml.Event{UUID: "GPU-3", Xid: 31, GI: 7}, "Normal GPUXid GPU 3 (GPU-3), GPU instance 7: Xid 31, GPU memory page fault: A kernel touched memory that is not mapped. Look at the application's log; the GPU needs nothing."},
		{"a MIG device's", nvml.Event{UUID: "MIG-a", Xid: 94, GI: -1}, "Normal GPUXid MIG device 1g.10gb (MIG-a) of GPU 3: Xid 94, contained memory error: A memory error that cannot be corrected hit one application only. Restart the application; reset the GPU when it is free."},
		{"nobody's", nvml.Event{Xid: 62, GI: -1}, "Warning GPUXid A GPU that the driver could not name: Xid 62, internal micro-controller halt: The GPU's own controller stopped for good. Drain the GPU and reset it, or restart the node."},
		{"a loss", nvml.Event{UUID: "GPU-9", Lost: true, GI: -1}, "Warning GPULost GPU GPU-9: the driver can no longer reach it. Drain and restart the node; if it comes back, check power, seating and heat."},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, reason, message := labels.XidEvent(snap, c.event)
			if got := kind + " " + reason + " " + message; got != c.want {
				t.Errorf("XidEvent = %s\nwant       %s", got, c.want)
			}
		})
	}
	if kind, reason, message := labels.RecoveredEvent(snap, "GPU-3"); kind+" "+reason+" "+message != "Normal GPURecovered GPU 3 (GPU-3) passed its health checks and can be allocated again." {
		t.Errorf("RecoveredEvent = %s %s %s", kind, reason, message)
	}
}
