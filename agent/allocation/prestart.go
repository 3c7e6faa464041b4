package allocation

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube"
)

// PreStart gives a container that is about to start its devices: it finds out
// which container the kubelet means, which devices were committed to its pod,
// whether they are to be had, and writes the CDI spec that the container runtime
// looks for. The same call again, when the container starts again, gives the
// same devices.
//
// An error is a sentence for the pod's users, and keeps the container from
// starting. The kubelet calls again by itself: a commitment that comes late is
// picked up then.
func (n *Node) PreStart(ctx context.Context, resource string, ids []string) error {
	err := n.preStart(ctx, resource, slices.Sorted(slices.Values(ids)))
	if err == nil || gaveUp(ctx, err) {
		return err
	}
	n.count(err)
	n.log.Warn("a container does not start", "resource", resource, "error", err)
	return err
}

func (n *Node) preStart(ctx context.Context, resource string, tokens []string) error {
	all, err := n.podEntries(ctx, resource, tokens)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e entry) bool { return e.Nonce == "" }) // other plugins'
	mine := slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return !e.has(resource, tokens) })
	if len(mine) == 0 {
		return nil // the container still has another plugin's answer
	}
	a, err := n.asker(ctx, mine[0].PodUID)
	if err != nil {
		return err
	}
	// The kubelet has written down all that it gave before these tokens.
	if err := n.learn(ctx); err != nil && !n.holds(mine[0].PodUID) {
		return refuse(ReasonPodUnknown, "%w; the container starts by itself once it is", err)
	}
	a.all, a.mine = all, mine
	if a.named != nil || n.byCDI() {
		if a.driver, err = n.driver.get(ctx); err != nil {
			return refuse(ReasonDriver, "%w; the container starts by itself once it answers", err)
		}
	}
	err = n.give(a)
	var r *refusal
	if errors.As(err, &r) && r.reason == ReasonTaken {
		// Who holds it may have ended, and nobody told us yet. It is asked for again
		// also where this sweep released nothing: Run's may have, meanwhile.
		if n.sweep(ctx, true) == nil {
			if err := n.readOthers(ctx, a); err != nil { // without those that have ended
				return err
			}
			err = n.give(a)
		}
	}
	if err != nil {
		return err
	}
	n.limit(ctx, a.pod)
	return nil
}

// asker is a pod one of whose containers is about to start.
type asker struct {
	pod    *v1.Pod
	named  map[string][]sharing.Named // its commitment; nil is none
	others []*v1.Pod                  // of the node; only for a pod without a commitment
	mine   []entry                    // of the container, or of several that use the same tokens one after the other
	all    []entry                    // of the pod
	driver *driverSpec                // nil is none, or not needed
}

// asker reads a pod and its commitment. What would be refused is asked for anew
// before that.
func (n *Node) asker(ctx context.Context, uid string) (*asker, error) {
	for _, fresh := range []bool{false, true} {
		pod, err := n.o.Pods.Pod(ctx, uid, fresh)
		switch {
		case err != nil && fresh:
			if a := n.remembered(uid); a != nil {
				return a, nil
			}
			return nil, refuse(ReasonPodUnknown, "pod %s cannot be read: %w; the container starts by itself once it can", uid, err)
		case pod == nil && fresh:
			return nil, refuse(ReasonPodUnknown, "the kubelet starts a container of pod %s, which is not a pod of this node", uid)
		case err != nil || pod == nil:
			continue
		}
		a := &asker{pod: pod}
		if a.named, err = kube.Committed(pod); err == nil && (a.named != nil || n.mayGoWithout(pod) == nil) {
			return a, n.readOthers(ctx, a)
		}
		switch {
		case !fresh:
		case n.holds(uid):
			return a, nil // it has started before: give says what has changed
		case err != nil:
			return nil, refuse(ReasonMalformed, "%w%s", err, again)
		default:
			return nil, n.mayGoWithout(pod)
		}
	}
	return nil, refuse(ReasonPodUnknown, "pod %s cannot be read", uid) // the second round has returned
}

// readOthers reads the pods of the node for a pod without a commitment: devices that
// are committed to them are not to be had.
func (n *Node) readOthers(ctx context.Context, a *asker) (err error) {
	if a.named != nil {
		return nil
	}
	if a.others, err = n.o.Pods.Pods(ctx, false); err != nil {
		return refuse(ReasonPodUnknown, "the pods of this node cannot be read: %w; the container starts by itself once they can", err)
	}
	return nil
}

// remembered is a pod that has started before, as its record has it: containers
// start again while the API server is away.
func (n *Node) remembered(uid string) *asker {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.records[uid]
	if r == nil {
		return nil
	}
	a := &asker{pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Pod, UID: types.UID(uid)}}}
	if r.Committed {
		a.named = map[string][]sharing.Named{}
		for i := range r.Containers {
			for _, d := range r.Containers[i].Devices {
				a.named[r.Containers[i].Name] = append(a.named[r.Containers[i].Name], sharing.Named{UUID: d.UUID, MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes})
			}
		}
	}
	return a
}

// byCDI tells whether the configuration has containers get their GPUs by CDI,
// committed or not.
func (n *Node) byCDI() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.settings.Plugin.Has(config.ListCDIAnnotations) || n.settings.Plugin.Has(config.ListCDICRI)
}

// holds tells whether a pod has a record.
func (n *Node) holds(uid string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.records[uid] != nil
}

// mayGoWithout says why a pod cannot start without committed devices, or nil.
func (n *Node) mayGoWithout(pod *v1.Pod) error {
	id := pod.Namespace + "/" + pod.Name
	switch by := pod.Spec.SchedulerName; {
	case n.o.Required:
		return refuse(ReasonMissing, "pod %s asks for GPUs and has no devices committed in %s, which this node requires: let Berth's scheduler place it (spec.schedulerName is %q)",
			id, api.AnnotationDevices, by)
	case slices.Contains(n.o.SchedulerNames, by):
		return refuse(ReasonMissing, "pod %s asks for GPUs and has no devices committed in %s: %s commits them when it binds a pod, so leave spec.nodeName out%s",
			id, api.AnnotationDevices, by, again)
	}
	for _, part := range kube.Parts(pod) {
		for _, a := range part.Asks {
			if size, _, ok := a.ShareOf(); ok {
				return refuse(ReasonMissing, "container %s of pod %s asks for a share of a GPU (%s: %s), which only Berth's scheduler gives out, and it has committed none in %s: leave spec.nodeName out and let Berth's scheduler place the pod",
					part.Name, id, a.Resource, size, api.AnnotationDevices)
			}
		}
	}
	return nil
}
