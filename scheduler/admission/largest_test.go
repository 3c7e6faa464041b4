package admission_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/admission"
)

// node is one with a GPU of so many MiB; of -1 with none, of 0 with one of which
// the memory is not known.
func node(name string, mib int64) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if mib >= 0 {
		n.Annotations = map[string]string{api.AnnotationInventory: fmt.Sprintf(`[{"index":0,"uuid":"GPU-%s","product":"X","memoryBytes":%d,"healthy":true}]`, name, mib<<20)}
	}
	return n
}

func TestTheKeeperKnowsTheLargestGPU(t *testing.T) {
	l := admission.NewLargestGPU()
	h := l.Handler()
	small, large := node("small", 15360), node("large", 81559)
	for _, step := range []struct {
		name string
		do   func()
		want int64
	}{
		{"no node", func() {}, 0},
		{"a node without GPUs", func() { h.OnAdd(node("cpu", -1), true) }, 0},
		{"one GPU", func() { h.OnAdd(small, true) }, 15360},
		{"a larger one", func() { h.OnAdd(large, false) }, 81559},
		{"one of which nothing is known", func() { h.OnAdd(node("odd", 0), false) }, 0},
		{"it is known now", func() { h.OnUpdate(nil, node("odd", 100)) }, 81559},
		{"the larger one goes", func() { h.OnDelete(cache.DeletedFinalStateUnknown{Obj: large}) }, 15360},
	} {
		if step.do(); l.MiB() != step.want {
			t.Errorf("%s: %d MiB, want %d", step.name, l.MiB(), step.want)
		}
	}
}

func TestTheKeeperTellsOfChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := admission.NewLargestGPU()
		ctx, stop := context.WithCancel(t.Context())
		var told []int64
		var fails atomic.Bool
		failed := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Run(ctx, func(_ context.Context, mib int64) error {
				if fails.Load() {
					return errors.New("refused")
				}
				told = append(told, mib)
				return nil
			}, func(error) { failed++ })
		}()
		h := l.Handler()
		see := func(n *v1.Node) {
			h.OnUpdate(nil, n)
			synctest.Wait()
		}
		see(node("a", 100))
		see(node("a", 100))
		see(node("b", 50))
		fails.Store(true)
		see(node("c", 200))
		fails.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		<-done
		if want := []int64{100, 200}; !slices.Equal(told, want) || failed != 1 {
			t.Errorf("told %v, %d failed; want %v and one", told, failed, want)
		}
	})
}
