package activator

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"berth.dev/berth/kube/serving"
)

// TestManyServicesAtRestSayNothing has 1,000 services without requests: what an activator says of them after the first line is
// empty, and takes a few milliseconds each second.
func TestManyServicesAtRestSayNothing(t *testing.T) {
	const services = 1000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := New(Options{Client: fake.NewClientset(), Log: slog.New(slog.DiscardHandler)})
	for i := range services {
		name := fmt.Sprint("s", i)
		if _, err := s.ensure(key{"shop", name, predictor, "http"}, name, 80, 0); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	tell, told := newTeller(s), map[string]serving.Requests{}
	if first := tell.since(told); len(first.Services) != services {
		t.Errorf("the first line has %d services, want %d", len(first.Services), services)
	}
	began := time.Now()
	if next := tell.since(told); len(next.Services) != 0 {
		t.Errorf("at rest a line has %d services", len(next.Services))
	}
	t.Logf("a look at %d services takes %v; they take %d KB of memory", services, time.Since(began), (after.HeapAlloc-before.HeapAlloc)>>10)
	if each := (after.HeapAlloc - before.HeapAlloc) / services; each > 20_000 {
		t.Errorf("a service at rest takes %d bytes, want at most 20000", each)
	}
}
