package training

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// sink collects the events that are written.
type sink struct {
	mu   sync.Mutex
	said map[string]bool
}

func (s *sink) Create(e *corev1.Event) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said[e.Reason+" "+e.Message] = true
	return e, nil
}

func (s *sink) Update(e *corev1.Event) (*corev1.Event, error) { return s.Create(e) }

func (s *sink) Patch(e *corev1.Event, _ []byte) (*corev1.Event, error) { return s.Create(e) }

func (s *sink) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said[text]
}

// A job of many pods has many events when these are created and deleted, before it is known what they have saved.
func TestEventsOfManyPodsDoNotDropWhatTheyHaveSaved(t *testing.T) {
	s := &sink{said: map[string]bool{}}
	b := newBroadcaster(s)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Start(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	r := b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Name})
	job := &corev1.ObjectReference{APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: "TrainJob", Namespace: "ml", Name: "wide", UID: "u-1"}
	for end := time.Now().Add(time.Minute); !s.has("Begins now"); time.Sleep(time.Millisecond) { // until events are heard
		if r.Event(job, corev1.EventTypeNormal, "Begins", "now"); time.Now().After(end) {
			t.Fatal("no event is written")
		}
	}
	for _, reason := range []string{"SuccessfulCreatePod", "SuccessfulDeletePod"} {
		for i := range 40 {
			r.Eventf(job, corev1.EventTypeNormal, reason, "pod %d", i)
		}
	}
	for i := range 8 {
		r.Eventf(job, corev1.EventTypeNormal, "CheckpointSaved", "pod %d has saved its work", i)
	}
	for i := range 8 {
		text := fmt.Sprintf("CheckpointSaved pod %d has saved its work", i)
		for end := time.Now().Add(time.Minute); !s.has(text); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no event %q", text)
			}
		}
	}
}
