package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/fleet"
	"berth.dev/berth/fleet/spec"
)

// BenchmarkBoundToRunning measures what the engine itself does for a pod from
// the moment it sees the binding to the write of Running, without a network:
// the fake API server only counts. It reports CPU, of all goroutines, too.
func BenchmarkBoundToRunning(b *testing.B) {
	const nodes, perNode = 100, 8
	client := fake.NewClientset()
	pods := watch.NewFake()
	client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) { return true, pods, nil })
	var running atomic.Int64
	client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch a := a.(type) {
		case clienttesting.UpdateActionImpl:
			running.Add(1)
			return true, a.Object, nil
		case clienttesting.CreateActionImpl:
			if a.GetResource().Resource == "events" {
				return true, a.Object, nil
			}
		}
		return false, nil, nil
	})
	s := spec.Fleet{Name: "bench"}
	for i := range nodes {
		s.Nodes = append(s.Nodes, a100(fmt.Sprintf("n%03d", i), perNode))
	}
	f, err := fleet.New(fleet.Options{Client: client, Fleet: s, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	<-f.Ready()
	template := named(bare("registry.example/train:v1", "python", "train.py"), "p", 1)
	before := running.Load()
	cpu := cpuTime()
	b.ResetTimer()
	for i := range b.N {
		p := template.DeepCopy()
		p.Name = fmt.Sprint("p", i)
		p.UID, p.ResourceVersion, p.Spec.NodeName = types.UID(p.Name), fmt.Sprint(i+1), fmt.Sprintf("n%03d", i%nodes)
		pods.Add(p)
		if i >= nodes*perNode { // make room
			old := template.DeepCopy()
			old.Name = fmt.Sprint("p", i-nodes*perNode)
			old.UID, old.Spec.NodeName = types.UID(old.Name), fmt.Sprintf("n%03d", i%nodes)
			pods.Delete(old)
		}
		for running.Load()-before < int64(i-50) {
			time.Sleep(time.Millisecond)
		}
	}
	for running.Load()-before < int64(b.N) {
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/pod")
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// cpuTime is the processor time of this process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
