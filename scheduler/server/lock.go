package server

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errKept is what giving the lease back gives while writes may be on their way.
var errKept = errors.New("writes may be on their way: the lease is kept until it runs out")

// keptLock is a lease that is not given back before free is set. An elector gives
// it back whenever it ends, also when it could not renew: then a write of the last
// seconds may not have been answered yet.
type keptLock struct {
	resourcelock.Interface
	free atomic.Bool
}

// Update implements resourcelock.Interface. A record without a holder is one that
// gives the lease back.
func (l *keptLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && !l.free.Load() {
		return errKept
	}
	return l.Interface.Update(ctx, record)
}
