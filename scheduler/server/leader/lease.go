package leader

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errKept refuses to release the lease while writes may be on their way.
var errKept = errors.New("writes may be on their way: the lease is kept until it runs out")

// Lease is a lock that is not released before Free is set. An elector releases it
// whenever it ends, also when it could not renew: then a write of the last
// seconds may not have been answered yet.
type Lease struct {
	resourcelock.Interface
	Free atomic.Bool // every write has been answered
}

// Update implements resourcelock.Interface. A record without a holder is one that
// releases the lease.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && !l.Free.Load() {
		return errKept
	}
	return l.Interface.Update(ctx, record)
}
