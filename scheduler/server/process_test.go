package server

import (
	"context"
	"net/http"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/pkg/scheduler"

	"berth.dev/berth/scheduler/server/leader"
	"berth.dev/berth/scheduler/server/report"
)

// TestWhoIsToldToStopWhileItReadsNeverWrites tells a process to stop before it has seen
// every object: an API server that answers no list keeps it from that.
func TestWhoIsToldToStopWhileItReadsNeverWrites(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	client := fake.NewClientset()
	asked, answer := make(chan struct{}), make(chan struct{})
	tell := sync.OnceFunc(func() { close(asked) })
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		tell()
		<-answer
		return false, nil, nil
	})
	config := schedulerconfig.Config{
		InformerFactory:    informers.NewSharedInformerFactory(client, 0),
		DynInformerFactory: dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), 0, metav1.NamespaceAll, nil),
		EventBroadcaster:   report.NewEventWriter(noAdapter{}, client.EventsV1()),
	}
	config.InformerFactory.Core().V1().Pods().Informer()
	cc := config.Complete()
	p := &process{cc: &cc, sched: &scheduler.Scheduler{}, gate: leader.NewGate(), synced: make(chan struct{}), failed: make(chan error, 1), stuck: func(context.Context) {}, reads: &lists{}}
	over := make(chan error, 1)
	go func() { over <- p.run(ctx, t.Context(), nil) }()
	<-asked
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
	close(answer)
	var api sent
	write, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://cluster.test/api", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.gate.Wrap(&api).RoundTrip(write); err == nil || api > 0 { //nolint:bodyclose // it has none
		t.Error("it was let write")
	}
	select {
	case <-p.synced:
		t.Error("it says that it has seen every object")
	default:
	}
}

// sent counts the requests that reach an API server.
type sent int

func (s *sent) RoundTrip(*http.Request) (*http.Response, error) {
	*s++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// noAdapter is what an event writer stands in front of.
type noAdapter struct{ events.EventBroadcasterAdapter }

func (noAdapter) StartRecordingToSink(<-chan struct{}) {}
func (noAdapter) Shutdown()                            {}
