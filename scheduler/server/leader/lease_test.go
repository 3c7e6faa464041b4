package leader

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is a lock in memory, whose API server can stop taking renewals.
type lease struct {
	resourcelock.Interface
	mu      sync.Mutex // guards the rest
	record  *resourcelock.LeaderElectionRecord
	refuses bool
}

func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	raw, err := json.Marshal(l.record)
	copied := *l.record
	return &copied, raw, err
}

func (l *lease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses && r.HolderIdentity != "" {
		return errors.New("no answer")
	}
	l.record = &r
	return nil
}

func (l *lease) Identity() string   { return "me" }
func (l *lease) Describe() string   { return "lease in memory" }
func (l *lease) RecordEvent(string) {}

// elect runs an elector on lock until ctx ends or it has lost.
func elect(ctx context.Context, t *testing.T, lock resourcelock.Interface) {
	t.Helper()
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true, Name: "test",
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Run(ctx)
}

func TestTheLeaseIsKeptUntilWritesAreAnswered(t *testing.T) {
	tests := []struct {
		name  string
		free  bool
		lost  bool // it cannot be renewed
		given bool
	}{
		{"told to stop with nothing on its way it is given back", true, false, true},
		{"told to stop with writes on their way it is kept", false, false, false},
		{"lost it is kept: what was sent last may not be answered", false, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lease{record: &resourcelock.LeaderElectionRecord{}}
				kept := &Lease{Interface: l}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				over := make(chan struct{})
				go func() {
					defer close(over)
					elect(ctx, t, kept)
				}()
				time.Sleep(5 * time.Second)
				synctest.Wait()
				l.mu.Lock()
				before := *l.record
				l.refuses = tt.lost
				l.mu.Unlock()
				if before.HolderIdentity != "me" {
					t.Fatalf("the lease is held by %q, want me", before.HolderIdentity)
				}
				kept.Free.Store(tt.free)
				if !tt.lost {
					stop()
				}
				<-over
				if given := l.record.HolderIdentity == ""; given != tt.given {
					t.Errorf("given back: %v, want %v", given, tt.given)
				}
				if !tt.given && !equality.Semantic.DeepEqual(before, *l.record) {
					t.Errorf("the lease was changed from %+v to %+v", before, *l.record)
				}
			})
		})
	}
}
