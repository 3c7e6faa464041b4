package allocation

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/allocation/cdi"
	"berth.dev/berth/agent/allocation/checkpoint"
	"berth.dev/berth/agent/allocation/ledger"
	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/api"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/request"
)

// PreStart gives a container that is about to start its devices: it finds out
// which container the kubelet means and which devices are committed to its pod,
// holds them, and writes the CDI spec that the container runtime looks for. When
// the container restarts, the same call gives it the same devices.
//
// An error is a sentence for the pod's users, and keeps the container from
// starting. The kubelet calls again, so a commitment that comes late is used then.
func (n *Node) PreStart(ctx context.Context, resource string, ids []string) error {
	err := n.preStart(ctx, resource, slices.Sorted(slices.Values(ids)))
	if err == nil || ctx.Err() != nil {
		return err // once ctx is done, the kubelet does not wait for the answer
	}
	n.refusals.Add(err)
	n.log.Warn("refused to start a container", "resource", resource, "error", err)
	return err
}

func (n *Node) preStart(ctx context.Context, resource string, ids []string) error {
	all, err := n.findPod(ctx, resource, ids)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e checkpoint.Entry) bool { return e.Nonce == "" }) // of other plugins
	starting := slices.DeleteFunc(slices.Clone(all), func(e checkpoint.Entry) bool { return !e.Has(resource, ids) })
	if len(starting) == 0 {
		return nil // the container still has another plugin's answer
	}
	uid := starting[0].PodUID
	q, err := n.request(ctx, uid)
	if err != nil {
		return err
	}
	// The kubelet has written down all that it allocated before these IDs.
	if err := n.readOthers(ctx); err != nil && !n.holds(uid) {
		return notice.Refuse(notice.ReasonPodUnknown, "%w; the container starts automatically once it can", err)
	}
	q.All, q.Starting = all, starting
	var driver *cdi.DriverSpec
	if q.Committed != nil || n.byCDI() {
		if driver, err = n.driver.Spec(ctx); err != nil {
			return notice.Refuse(notice.ReasonDriver, "%w; the container starts automatically once it answers", err)
		}
	}
	err = n.hold(q, driver)
	// The pod that holds the device may have ended without the node knowing yet. Hold
	// again even if this sweep released nothing: Run's may have since.
	if notice.IsFor(err, notice.ReasonTaken) && n.sweep(ctx, true) == nil {
		if err := n.readPods(ctx, q); err != nil { // without those that have ended
			return err
		}
		err = n.hold(q, driver)
	}
	if err != nil {
		return err
	}
	n.limitMemory(ctx, q.Pod)
	return nil
}

// hold holds what a pod gets, unless it does already, and writes the CDI specs of
// the containers that start. On an error nothing has changed.
func (n *Node) hold(q *ledger.Request, driver *cdi.DriverSpec) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ledger.Ready() {
		return notice.Refuse(notice.ReasonDriver, "the node's GPUs are not known yet; the container starts automatically once they are")
	}
	r, err := n.ledger.Reserve(q)
	if err != nil {
		return err
	}
	var written []string
	if err := n.writeSpecs(q, r, driver, &written); err != nil {
		if !n.ledger.Has(r.PodUID) {
			for _, nonce := range written {
				_ = n.specs.Remove(nonce) // report the first error, not this one
			}
		}
		n.ledger.Cancel(r.PodUID)
		return err
	}
	for _, nonce := range n.ledger.Confirm(r) {
		n.removeSpec(nonce)
	}
	n.publish()
	return nil
}

// writeSpecs writes the CDI specs of the containers that start, and adds their
// nonces to written. n.mu is held.
func (n *Node) writeSpecs(q *ledger.Request, r *ledger.Record, driver *cdi.DriverSpec, written *[]string) error {
	for _, e := range q.Starting {
		c := r.Container(e.Container)
		if err := n.ledger.CheckHealthy(r, c); err != nil {
			return err
		}
		spec, err := n.builder.Spec(r, c, e, driver)
		if err != nil {
			return err
		}
		if err := n.specs.Write(e.Nonce, spec); err != nil {
			return notice.Refuse(notice.ReasonWrite, "container %s of pod %s/%s: %w", e.Container, r.Namespace, r.Pod, err)
		}
		*written = append(*written, e.Nonce)
	}
	return nil
}

// request reads a pod and its commitment. Before it refuses the pod, it reads the
// pod again from the server.
func (n *Node) request(ctx context.Context, uid string) (*ledger.Request, error) {
	for _, fresh := range []bool{false, true} {
		pod, err := n.o.Pods.Pod(ctx, uid, fresh)
		switch {
		case err != nil && fresh:
			if q := n.remembered(uid); q != nil {
				return q, nil
			}
			return nil, notice.Refuse(notice.ReasonPodUnknown, "pod %s cannot be read: %w; the container starts automatically once it can", uid, err)
		case pod == nil && fresh:
			return nil, notice.Refuse(notice.ReasonPodUnknown, "the kubelet starts a container of pod %s, which is not a pod of this node", uid)
		case err != nil || pod == nil:
			continue
		}
		q := &ledger.Request{Pod: pod}
		if q.Committed, err = commit.Committed(pod); err == nil && (q.Committed != nil || n.mayGoWithout(pod) == nil) {
			return q, n.readPods(ctx, q)
		}
		switch {
		case !fresh:
		case n.holds(uid):
			return q, nil // it has started before: the ledger says what has changed
		case err != nil:
			return nil, notice.Refuse(notice.ReasonMalformed, "%w%s", err, notice.Reschedule)
		default:
			return nil, n.mayGoWithout(pod)
		}
	}
	return nil, notice.Refuse(notice.ReasonPodUnknown, "pod %s cannot be read", uid) // not reached: the second round returns
}

// readPods reads the pods of the node for a pod without a commitment: devices that
// are committed to others are not free.
func (n *Node) readPods(ctx context.Context, q *ledger.Request) (err error) {
	if q.Committed != nil {
		return nil
	}
	if q.Others, err = n.o.Pods.Pods(ctx, false); err != nil {
		return notice.Refuse(notice.ReasonPodUnknown, "the pods of this node cannot be read: %w; the container starts automatically once they can", err)
	}
	return nil
}

func (n *Node) remembered(uid string) *ledger.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ledger.Remembered(uid)
}

func (n *Node) byCDI() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.builder.ByCDI()
}

// holds reports whether a pod has a record.
func (n *Node) holds(uid string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ledger.Has(uid)
}

// mayGoWithout returns why a pod cannot start without committed devices, or nil.
func (n *Node) mayGoWithout(pod *v1.Pod) error {
	id := pod.Namespace + "/" + pod.Name
	switch by := pod.Spec.SchedulerName; {
	case n.o.Required:
		return notice.Refuse(notice.ReasonMissing, "pod %s requests GPUs but has no devices committed in %s, which this node requires: let Berth's scheduler place it (spec.schedulerName is %q)",
			id, api.AnnotationDevices, by)
	case slices.Contains(n.o.SchedulerNames, by):
		return notice.Refuse(notice.ReasonMissing, "pod %s requests GPUs but has no devices committed in %s: %s commits them when it binds a pod, so do not set spec.nodeName%s",
			id, api.AnnotationDevices, by, notice.Reschedule)
	}
	for _, part := range request.Parts(pod) {
		for _, a := range part.Asks {
			if size, _, ok := a.ShareOf(); ok {
				return notice.Refuse(notice.ReasonMissing, "container %s of pod %s requests a share of a GPU (%s: %s), which only Berth's scheduler can allocate, but has none committed in %s: do not set spec.nodeName, and let Berth's scheduler place the pod",
					part.Name, id, a.Resource, size, api.AnnotationDevices)
			}
		}
	}
	return nil
}
