package serving

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/kube/idle"
)

// eventPolicy is the reason of an event about a policy for idle workloads that cannot be read.
const eventPolicy = "IdlePolicy"

// readPolicy reads after how long without a request the service has no replicas, by its annotations and its namespace's. What cannot
// be read is reported in an event, once.
func (p *pass) readPolicy(ctx context.Context) error {
	ns := runtime.NamespaceMeta()
	if err := p.client.Get(ctx, client.ObjectKey{Name: p.object.Namespace}, ns); client.IgnoreNotFound(err) != nil {
		return err
	}
	policy, problems := idle.Of(ns.Annotations, p.object.Annotations)
	if !policy.Never {
		p.written.Service.Scale.StopAfter = policy.After
	}
	text := strings.Join(problems, "; ")
	if text != "" && text != p.mem.policy {
		p.events.Event(p.regarding(), corev1.EventTypeWarning, eventPolicy, text)
	}
	p.mem.policy = text
	return nil
}

// ofNamespace requests a pass over every service of a namespace.
func (r *reconciler) ofNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.services(ctx, client.InNamespace(o.GetName()))
}
