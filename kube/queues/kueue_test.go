package queues_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/kube/queues"
)

// discovered is an API server that serves resources of Kueue, by group and version, or fails.
type discovered struct {
	fails  bool
	serves map[string]string
}

func (d discovered) ask(groupVersion string) (*metav1.APIResourceList, error) {
	name, there := d.serves[groupVersion]
	switch {
	case d.fails:
		return nil, errors.New("not now")
	case !there:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
	}
	return &metav1.APIResourceList{GroupVersion: groupVersion, APIResources: []metav1.APIResource{{Name: name}}}, nil
}

func TestWhetherKueueRuns(t *testing.T) {
	const newer, older = "kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1"
	k := queues.NewKueue(discovered{}.ask)
	if !k.Runs() {
		t.Error("Kueue does not run before that is known")
	}
	if k = nil; k.Runs() {
		t.Error("Kueue runs where no API server is asked")
	}
	for _, tt := range []struct {
		name          string
		api           discovered
		certain, runs bool
	}{
		{"an API server that does not answer", discovered{fails: true}, false, true},
		{"a cluster without Kueue", discovered{}, false, false},
		{"its newer version", discovered{serves: map[string]string{newer: "localqueues"}}, true, true},
		{"its older version", discovered{serves: map[string]string{older: "localqueues"}}, true, true},
		{"another resource of its group", discovered{serves: map[string]string{newer: "cohorts", older: "cohorts"}}, false, false},
	} {
		k := queues.NewKueue(tt.api.ask)
		if certain, changed := k.Ask(); certain != tt.certain || k.Runs() != tt.runs || changed == tt.runs {
			t.Errorf("%s: runs %v, certainly %v, and changed %v; want %v, %v", tt.name, k.Runs(), certain, changed, tt.runs, tt.certain)
		}
	}
}

// TestKueueIsFollowedUntilItRuns has an API server fail, be without Kueue, fail again, and get it.
func TestKueueIsFollowedUntilItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var api atomic.Pointer[discovered]
		api.Store(&discovered{fails: true})
		k := queues.NewKueue(func(version string) (*metav1.APIResourceList, error) { return api.Load().ask(version) })
		k.Ask()
		var said []bool
		var waits []time.Duration
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			k.Follow(context.Background(), func(began time.Time) time.Duration {
				waits = append(waits, time.Since(began))
				return time.Second
			}, func() { said = append(said, k.Runs()) })
		}()
		for _, now := range []discovered{{}, {}, {fails: true}, {serves: map[string]string{"kueue.x-k8s.io/v1beta1": "localqueues"}}} {
			api.Store(&now)
			time.Sleep(time.Second)
			synctest.Wait()
			if now.fails && k.Runs() {
				t.Error("an API server that does not answer once makes Kueue run")
			}
		}
		<-ended
		if want := []bool{false, true}; !slices.Equal(said, want) {
			t.Errorf("Kueue is said to run %v, want %v", said, want)
		}
		if want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(waits, want) {
			t.Errorf("Follow waits after %v, want after %v", waits, want)
		}
	})
}
