package controlplane

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// obedient is a part that runs until it is told to stop.
func obedient(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAGroupEndsWithItsParts(t *testing.T) {
	broken := errors.New("no disk")
	for _, tt := range []struct {
		name string
		// work starts parts and waits for something that never comes, as a start does.
		work func(ctx context.Context, g *group) error
		want string
		took time.Duration
	}{
		{"a part that cannot be configured was never started, and is not waited for", func(ctx context.Context, g *group) error {
			g.start(ctx, "fleet", "fleet", obedient)
			return errors.New("configure kube-scheduler: no")
		}, "configure kube-scheduler: no", 0},
		{"a part that ends while another is waited for is told", func(ctx context.Context, g *group) error {
			g.start(ctx, "fleet", "fleet", obedient)
			g.start(ctx, "kube-scheduler", "scheduler", func(context.Context) error {
				time.Sleep(time.Second)
				return broken
			})
			<-ctx.Done()
			return errors.New("list nodes: " + ctx.Err().Error())
		}, "kube-scheduler ended: no disk", time.Second},
		{"the first of several that end is told", func(ctx context.Context, g *group) error {
			g.start(ctx, "etcd", "etcd", func(context.Context) error { return broken })
			<-ctx.Done()
			g.start(ctx, "fleet", "fleet", func(context.Context) error { return errors.New("lost the store") })
			return nil
		}, "etcd ended: no disk", 0},
		{"a part that ends without an error is told", func(ctx context.Context, g *group) error {
			g.start(ctx, "fleet", "fleet", func(context.Context) error { return nil })
			<-ctx.Done()
			return nil
		}, "fleet exited without an error", 0},
		{"a part that does not listen is named and left", func(ctx context.Context, g *group) error {
			g.start(ctx, "deaf", "deaf", func(context.Context) error {
				time.Sleep(time.Hour)
				return nil
			})
			g.start(ctx, "fleet", "fleet", obedient)
			return broken
		}, "no disk\ndeaf did not stop within 1m0s", time.Minute},
		{"nothing ran", func(context.Context, *group) error { return nil }, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, g := newGroup(t.Context())
				err := g.close(ctx, endPatience, tt.work(ctx, g))
				got := ""
				if err != nil {
					got = err.Error()
				}
				if got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				time.Sleep(time.Hour) // for the part that does not listen
			})
		})
	}
}

func TestAGroupToldToStopIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, stop := context.WithCancel(t.Context())
		ctx, g := newGroup(parent)
		var mu sync.Mutex
		ended := 0
		for range 3 {
			g.start(ctx, "part", "part", func(ctx context.Context) error {
				<-ctx.Done()
				mu.Lock()
				ended++
				mu.Unlock()
				return errors.New("interrupted")
			})
		}
		stop()
		if err := g.close(ctx, endPatience, nil); err != nil {
			t.Errorf("close() = %v, want nil", err)
		}
		if ended != 3 {
			t.Errorf("%d of 3 parts had ended", ended)
		}
	})
}

func TestAPartThatEndsUnwraps(t *testing.T) {
	broken := errors.New("no disk")
	if err := error(&endedError{"etcd", broken}); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "etcd ended") {
		t.Errorf("got %v", err)
	}
}
