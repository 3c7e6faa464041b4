package fleet

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/pause"
)

// Leases are renewed less often than a kubelet does it, since their renewal is
// most of what an idle fleet costs. The node lifecycle controller must be told
// a grace period of LeaseDuration.
const (
	renewEvery     = 60 * time.Second
	renewEveryMany = 120 * time.Second
	manyNodes      = 500
	leaseTime      = 240 * time.Second
	leaseTimeMany  = 600 * time.Second
)

// LeaseDuration returns how long the lease of a node of a fleet of this size
// holds: the node lifecycle controller's --node-monitor-grace-period must not
// be shorter.
func LeaseDuration(nodes int) time.Duration {
	if nodes >= manyNodes {
		return leaseTimeMany
	}
	return leaseTime
}

// lease is a node's lease as it was last written; only keepLeases uses it.
type lease struct{ object *coordinationv1.Lease }

// keepLeases renews the leases of all nodes until ctx ends: one goroutine that
// spreads them over the period, in order of name.
func (f *Fleet) keepLeases(ctx context.Context) {
	for i := 0; ; i++ {
		nodes := f.sorted()
		every := renewEvery
		if len(nodes) >= manyNodes {
			every = renewEveryMany
		}
		batch := max(1, len(nodes)/int(every/time.Second))
		rest := every / time.Duration(max(1, len(nodes)/batch))
		for j := range min(batch, len(nodes)) {
			n := nodes[(i*batch+j)%len(nodes)]
			if err := n.renew(ctx); err != nil && ctx.Err() == nil {
				f.log.Debug("lease not renewed", "node", n.name, "error", err)
			}
		}
		if !pause.For(ctx, rest) {
			return
		}
	}
}

// renew writes the node's lease without reading it first. A broken kubelet
// writes none.
func (n *node) renew(ctx context.Context) error {
	n.mu.Lock()
	silent, uid := n.broken() || n.api == nil, n.uid()
	n.mu.Unlock()
	if silent {
		return nil
	}
	client := n.fleet.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	now := metav1.NewMicroTime(n.fleet.now())
	if n.lease.object == nil {
		l := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: n.name, Namespace: v1.NamespaceNodeLease,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.name, UID: uid}},
			},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &n.name, RenewTime: &now,
				LeaseDurationSeconds: new(int32(LeaseDuration(n.fleet.size()) / time.Second)),
			},
		}
		created, err := client.Create(ctx, l, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			if err == nil {
				n.lease.object = created
			}
			return err
		}
		if n.lease.object, err = client.Get(ctx, n.name, metav1.GetOptions{}); err != nil {
			n.lease.object = nil
			return err
		}
	}
	n.lease.object.Spec.RenewTime = &now
	n.lease.object.ManagedFields = nil
	updated, err := client.Update(ctx, n.lease.object, metav1.UpdateOptions{})
	if err != nil {
		n.lease.object = nil // read again next time
		return err
	}
	n.lease.object = updated
	return nil
}
