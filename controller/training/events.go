package training

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// broadcaster writes the events of jobs. It is apart from the manager's, whose limit of 25 events of an object drops all
// that follow: those of creating and deleting the pods of a job are that many, and what its pods have saved comes last.
type broadcaster struct {
	record.EventBroadcaster
	sink record.EventSink
}

// newBroadcaster returns one that counts the events of each reason apart.
func newBroadcaster(sink record.EventSink) *broadcaster {
	return &broadcaster{record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{SpamKeyFunc: spamKey}), sink}
}

// spamKey says which events count against one limit.
func spamKey(e *corev1.Event) string {
	o := &e.InvolvedObject
	return strings.Join([]string{e.Source.Component, o.APIVersion, o.Kind, o.Namespace, o.Name, string(o.UID), e.Reason}, "/")
}

// newRecorder returns a recorder for the events of jobs, which runs with a manager.
func newRecorder(mgr manager.Manager) (record.EventRecorder, error) {
	kube, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a client for events: %w", err)
	}
	b := newBroadcaster(&typed.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	return b.NewRecorder(mgr.GetScheme(), corev1.EventSource{Component: Name}), mgr.Add(b)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: it runs before the controllers do.
func (b *broadcaster) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it runs until ctx ends.
func (b *broadcaster) Start(ctx context.Context) error {
	b.StartRecordingToSink(b.sink)
	<-ctx.Done()
	b.Shutdown()
	return nil
}
