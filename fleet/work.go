package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	lookFirst = 2 * time.Second // for missing ConfigMaps and Secrets, doubling
	lookMost  = 30 * time.Second
	writeWait = time.Second // after a write that failed
)

// admit gives a pod that the node has not seen its devices, or, after a restart,
// those that its status names, with the node's mutex held. It is called in the
// order in which bindings are seen.
func (p *pod) admit() {
	n := p.node
	var err error
	if ids := observed(&p.api.Status); len(ids) > 0 {
		err = keepDevices(n, p, ids)
	} else if silent(p.api) {
		err = keepCommitted(n.ledger, p)
	} else if !terminal(p.api.Status.Phase) && p.api.Status.StartTime == nil {
		if err := allocate(n.ledger, p); err != nil {
			p.reject(err.Error())
			return
		}
	}
	p.restore()
	if err != nil {
		n.fleet.log.Warn("a pod's devices are gone", "pod", p.api.Namespace+"/"+p.api.Name, "node", n.name, "error", err)
		p.reject("Allocate failed due to " + err.Error() + ", which is unexpected")
		return
	}
	if terminal(p.api.Status.Phase) {
		p.release()
	} else if p.ip != "" && !p.api.Spec.HostNetwork && !n.fleet.ips.keepPod(p.ref(), p.ip) {
		p.ip = ""
	}
}

// reject refuses a pod, or ends it, as a kubelet that cannot give it its
// devices.
func (p *pod) reject(message string) {
	if terminal(p.api.Status.Phase) {
		return
	}
	ran := p.initialized()
	p.finish(p.node.fleet.now(), 137)
	p.rejected = !ran
	p.reason, p.message = "UnexpectedAdmissionError", "Pod was rejected: "+message
	p.event(v1.EventTypeWarning, p.reason, message, nil)
}

// release gives back the pod's devices and address. It is called when the API
// server is known to have the pod's end, never before: until then somebody who
// reads the API sees it hold them.
func (p *pod) release() {
	if p.released {
		return
	}
	p.released = true
	p.node.ledger.Release(string(p.api.UID))
	if m := &p.node.mig; m.waits {
		m.due = true
		p.node.fleet.queue.Add(p.node)
	}
	p.node.fleet.ips.release(p.ip, p.api.UID)
}

// run does for a pod what is due, and writes its status if that changed.
func (p *pod) run(ctx context.Context) {
	n, f := p.node, p.node.fleet
	lacks, looked := p.look(ctx)
	n.mu.Lock()
	if p.gone || n.broken() {
		n.mu.Unlock()
		return
	}
	now := f.now()
	if looked {
		p.mount(lacks, now)
	}
	wasReady := p.ready
	p.advance(now)
	changed := p.standStill(now)
	var status *v1.PodStatus
	if !terminal(p.api.Status.Phase) {
		status = p.status(now)
	}
	api, reports := p.reporting(now)
	if status != nil && (!p.showing() && now.Before(p.seen.Add(creatingFor)) || p.has(status) && !reports) {
		status = nil
	}
	next, finished := p.next, p.finished
	configure := p.configure && p.ready
	p.configure = p.configure && !p.ready
	if p.plugin && wasReady != p.ready {
		f.queue.Add(n)
	}
	n.mu.Unlock()

	if changed {
		f.wakeJob(trainingJob(api))
	}
	if configure { // before anybody can know that the plugin has started: who changes its ConfigMap then has not meant this start
		n.configure(ctx, api)
	}
	err := p.write(ctx, api, status)
	if err == nil && finished && api.DeletionTimestamp != nil {
		err = p.delete(ctx, api)
	}
	if err != nil {
		level := slog.LevelDebug
		if apierrors.IsInvalid(err) {
			level = slog.LevelWarn // no other attempt will do better
		}
		f.log.Log(ctx, level, "pod not written", "pod", api.Namespace+"/"+api.Name, "error", err)
		next = now.Add(writeWait)
	}
	f.timers.set(&p.alarm, next)
}

// look asks the API server for what the pod needs, if it is time to. It is done
// without the node's mutex.
func (p *pod) look(ctx context.Context) (lacks []missing, looked bool) {
	n, f := p.node, p.node.fleet
	n.mu.Lock()
	api := p.api
	due := (!p.mounted || len(p.missing) > 0) && !f.now().Before(p.lookAt) && !p.gone && !p.finished && !n.broken() && api.DeletionTimestamp == nil
	n.mu.Unlock()
	if !due {
		return nil, false
	}
	return f.objects.check(ctx, api.Namespace, needs(api)), true
}

// mount notes what is missing, and sets up the pod's network once its volumes
// are there.
func (p *pod) mount(lacks []missing, now time.Time) {
	told := map[string]bool{}
	for _, m := range p.missing {
		told[m.message] = true
	}
	p.missing = lacks
	ready := true
	for _, m := range lacks {
		if m.volume == "" {
			continue
		}
		ready = false
		if !told[m.message] || p.looked%4 == 0 {
			p.event(v1.EventTypeWarning, "FailedMount", fmt.Sprintf("MountVolume.SetUp failed for volume %q : %s", m.volume, m.message), nil)
		}
	}
	if ready && p.ip == "" {
		if p.api.Spec.HostNetwork {
			p.ip = p.node.ip
		} else if p.ip = p.node.fleet.ips.pod(p.ref()); p.ip == "" {
			ready = false
			p.event(v1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: no IP addresses available in the node's range", nil)
		}
	}
	p.mounted = p.mounted || ready
	p.lookAt = never
	if !ready || len(lacks) > 0 {
		p.lookAt = now.Add(min(lookMost, lookFirst<<min(p.looked, 10)))
		p.looked++
	}
}

// has reports whether the API server has this status, as far as is known.
func (p *pod) has(s *v1.PodStatus) bool {
	return p.written != nil && equality.Semantic.DeepEqual(s, p.written) || equality.Semantic.DeepEqual(s, &p.api.Status)
}

// write sends a status, again over a newer version of the pod if there is one;
// nil sends nothing. A pod that is gone is not an error.
func (p *pod) write(ctx context.Context, api *v1.Pod, status *v1.PodStatus) error {
	if status == nil {
		return nil
	}
	client := p.node.fleet.client.CoreV1().Pods(api.Namespace)
	for range 3 {
		obj := &v1.Pod{ObjectMeta: api.ObjectMeta, Spec: api.Spec, Status: *status}
		got, err := client.UpdateStatus(ctx, obj, metav1.UpdateOptions{})
		if err == nil {
			p.wrote(got, status)
			return nil
		}
		if apierrors.IsConflict(err) {
			if got, err = client.Get(ctx, api.Name, metav1.GetOptions{}); err == nil {
				if got.UID != api.UID {
					return nil
				}
				p.wrote(got, nil)
				api, status = p.again()
				continue
			}
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("write the status of pod %s/%s: %w", api.Namespace, api.Name, err)
	}
	return fmt.Errorf("write the status of pod %s/%s: it changes too often", api.Namespace, api.Name)
}

// wrote takes the API server's answer, and the status it acknowledged, if any.
// What a user has changed in the meantime is in the answer too, and the watch, which
// reports it later, then finds nothing new.
func (p *pod) wrote(got *v1.Pod, status *v1.PodStatus) {
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	got.ManagedFields = nil
	if old := p.api; newer(got.ResourceVersion, old.ResourceVersion) {
		p.update(got)
		if asksMore(old, got) {
			p.node.fleet.queue.Add(p)
		}
	}
	if status != nil {
		p.written = status
	}
}

// again returns what to write after a conflict.
func (p *pod) again() (*v1.Pod, *v1.PodStatus) {
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	now := p.node.fleet.now()
	api, _ := p.reporting(now)
	return api, p.status(now)
}

// delete removes a pod that has ended from the API server, for good. A pod with
// finalizers stays there until their owners are done. One without grace is removed
// as any other: the API server writes that it has none before it removes it, and may
// have been killed between the two.
func (p *pod) delete(ctx context.Context, api *v1.Pod) error {
	p.node.mu.Lock()
	done := p.deleted
	p.node.mu.Unlock()
	if done {
		return nil
	}
	err := p.node.fleet.client.CoreV1().Pods(api.Namespace).Delete(ctx, api.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &api.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s: %w", api.Namespace, api.Name, err)
	}
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	p.deleted = true
	return nil
}
