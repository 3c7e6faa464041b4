package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/checkpoint"
)

// The times of a simulated kubelet.
const (
	stopTime    = time.Second // a well-behaved process needs this long to end
	backOff     = 10 * time.Second
	maxBackOff  = 5 * time.Minute
	resetAfter  = 10 * time.Minute       // a run this long resets the back-off
	creatingFor = 300 * time.Millisecond // a start this quick shows no ContainerCreating
)

// advance does all that is due by now: ends runs whose plan is over, starts
// what can start, and stops what is deleted or overdue. It sets p.next.
func (p *pod) advance(now time.Time) {
	p.next = time.Time{}
	if p.rejected || p.finished {
		return
	}
	if p.started.IsZero() {
		p.started = now
	}
	p.endRuns(now)
	switch {
	case p.api.DeletionTimestamp != nil:
		p.stop(now)
	case p.overdue(now):
		p.reason, p.message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
		p.event(v1.EventTypeNormal, p.reason, p.message, nil)
		p.finish(now, 137)
	case p.mounted:
		p.start(now)
	case !p.lookAt.IsZero():
		p.wake(p.lookAt)
	}
	p.wakes(now)
}

// endRuns ends the runs whose plan is over, and those whose image the user has
// changed: these start again at once.
func (p *pod) endRuns(now time.Time) {
	for _, c := range p.containers {
		switch {
		case !c.running():
		case c.hosted:
			p.follow(c, now)
		case c.download != nil:
			p.followDownload(c)
		case !c.plan.Forever && !now.Before(c.begun.Add(c.plan.Duration)):
			p.end(c, c.begun.Add(c.plan.Duration), c.plan.ExitCode, c.plan.Reason, c.plan.Message)
		case c.image != c.spec.Image:
			p.event(v1.EventTypeNormal, "Killing", fmt.Sprintf("Container %s definition changed, will be restarted", c.spec.Name), c)
			p.end(c, now, 143, "", "")
			c.crashes, c.retry = 0, now
		}
	}
}

// wakes notes when the containers have something to do next.
func (p *pod) wakes(now time.Time) {
	if p.finished {
		return
	}
	for _, c := range p.containers {
		if !c.running() {
			continue
		}
		if !c.plan.Forever {
			p.wake(c.begun.Add(c.plan.Duration))
		}
		if c.hosted {
			continue // its process tells
		}
		p.lookForModel(c, now)
		for _, at := range []time.Time{c.startedAt(), c.readyAt()} {
			if at.After(now) {
				p.wake(at)
			}
		}
	}
	if at := p.seen.Add(creatingFor); at.After(now) && !p.showing() {
		p.wake(at)
	}
}

// showing reports whether there is more to tell than that containers are being
// created.
func (p *pod) showing() bool {
	return p.finished || p.rejected || slices.ContainsFunc(p.containers, func(c *container) bool {
		w := c.state.Waiting
		return w == nil || w.Reason != "ContainerCreating" && w.Reason != "PodInitializing"
	})
}

// start starts what may run now, in the order of a kubelet: init containers
// one after the other, sidecars without waiting for their end, then the rest.
func (p *pod) start(now time.Time) {
	initialized := p.initialized()
	for _, c := range p.of(roleInit, roleSidecar) {
		switch {
		case c.role == roleInit && (initialized || c.done()):
			continue
		case !c.running():
			p.try(c, now)
		}
		if c.role == roleInit && c.failed(p.api) {
			p.finish(now, 0)
			return
		}
		if !initialized && !(c.role == roleInit && c.done()) && !(c.role == roleSidecar && c.hasStarted(now)) {
			return
		}
	}
	over := true
	for _, c := range p.of(roleApp) {
		if !c.running() && (c.state.Terminated == nil || c.restarting(p.api)) {
			p.try(c, now)
		}
		over = over && c.state.Terminated != nil && !c.restarting(p.api)
	}
	for _, c := range p.of(roleEphemeral) {
		if c.state.Waiting != nil {
			p.try(c, now)
		}
	}
	if over {
		p.finish(now, 0)
	}
}

// initialized reports whether a container of the pod has ever started: from
// then on init containers do not run again.
func (p *pod) initialized() bool {
	return slices.ContainsFunc(p.containers, func(c *container) bool {
		return c.role == roleApp && (c.state.Waiting == nil || c.last.Terminated != nil)
	})
}

// done reports whether an init container has done its work.
func (c *container) done() bool { return c.state.Terminated != nil && c.state.Terminated.ExitCode == 0 }

// failed reports whether an init container has failed for good.
func (c *container) failed(pod *v1.Pod) bool {
	return c.state.Terminated != nil && c.state.Terminated.ExitCode != 0 && !c.restarting(pod)
}

// restarting reports whether a container that has ended is started again: by
// its own policy and rules, else by the pod's.
func (c *container) restarting(pod *v1.Pod) bool {
	ended := c.state.Terminated
	if ended == nil {
		ended = c.last.Terminated
	}
	if ended == nil {
		return false
	}
	for _, r := range c.spec.RestartPolicyRules {
		if r.ExitCodes != nil && slices.Contains(r.ExitCodes.Values, ended.ExitCode) == (r.ExitCodes.Operator == v1.ContainerRestartRuleOnExitCodesOpIn) {
			return true
		}
	}
	policy := v1.ContainerRestartPolicy(pod.Spec.RestartPolicy)
	if c.spec.RestartPolicy != nil {
		policy = *c.spec.RestartPolicy
	}
	switch {
	case c.role == roleEphemeral || policy == v1.ContainerRestartPolicyNever:
		return false
	case policy == v1.ContainerRestartPolicyOnFailure || c.role == roleInit:
		return ended.ExitCode != 0
	}
	return true
}

// end notes that a run has ended.
func (p *pod) end(c *container, at time.Time, code int32, reason, message string) {
	if c.download != nil {
		c.download.cancel()
		c.download = nil
	}
	if reason == "" {
		reason = "Completed"
		if code != 0 {
			reason = "Error"
		}
	}
	c.state = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, Message: message, ContainerID: p.containerID(c),
		StartedAt: seconds(c.begun), FinishedAt: seconds(at),
	}}
	if at.Sub(c.begun) >= resetAfter {
		c.crashes = 0
	}
	c.retry = at.Add(delay(c.crashes))
	p.node.settle(p, c, at)
}

// delay is the back-off before restart number n+1 in a row: none, then 10 s
// doubling to 5 min.
func delay(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return min(maxBackOff, backOff<<min(n-1, 6))
}

// stop ends a pod that is being deleted: its processes end a second after the
// request, or as late as the annotation berth.dev/simulate says, and with its grace
// period if that is shorter. Then they are killed.
func (p *pod) stop(now time.Time) {
	grace := time.Duration(0)
	if g := p.api.DeletionGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	takes := p.stopsAfter()
	at := p.api.DeletionTimestamp.Add(-grace).Add(min(grace, takes))
	if !p.stopSeen {
		p.stopSeen = true
		for _, c := range p.containers {
			if c.running() {
				p.event(v1.EventTypeNormal, "Killing", "Stopping container "+c.spec.Name, c)
			}
		}
	}
	if p.stopProcesses(now) {
		return
	}
	if now.Before(at) && slices.ContainsFunc(p.containers, (*container).running) {
		p.wake(at)
		return
	}
	if takes > max(grace, stopTime) {
		p.finish(now, 137)
		return
	}
	p.finish(now, 143)
}

// stopsAfter returns how long the processes of a pod take to end after they are asked
// to.
func (p *pod) stopsAfter() time.Duration {
	takes := time.Duration(0)
	for _, c := range p.containers {
		if c.running() {
			takes = max(takes, cmp.Or(c.plan.Stop, stopTime))
		}
	}
	return takes
}

// finish ends every run, with an exit code of those that did not choose to end,
// and lets nothing start again. Servers handle the signal and exit with 0.
func (p *pod) finish(now time.Time, code int32) {
	asked := code == 143
	for _, c := range p.containers {
		if !c.running() {
			continue
		}
		if c.hosted {
			p.node.fleet.host.Stop(p.key(c), goneGrace)
		}
		code := code
		if code == 143 && c.plan.Forever && !c.plan.Idle {
			code = 0
		}
		message := ""
		if s, err := checkpoint.Parse(p.api.Annotations[api.AnnotationCheckpoint]); err == nil && s.OnSignal && asked && c.role == roleApp {
			code, message = int32(cmp.Or(s.Code, int(code))), checkpoint.Report(now)
		}
		p.end(c, now, code, "", message)
	}
	p.finished = true
}

// overdue reports whether activeDeadlineSeconds have passed.
func (p *pod) overdue(now time.Time) bool {
	s := p.api.Spec.ActiveDeadlineSeconds
	if s == nil {
		return false
	}
	at := p.started.Add(time.Duration(*s) * time.Second)
	if now.Before(at) {
		p.wake(at)
		return false
	}
	return true
}

// where names a container in a kubelet's messages.
func (p *pod) where(c *container) string {
	return fmt.Sprintf("%s pod=%s_%s(%s)", c.spec.Name, p.api.Name, p.api.Namespace, p.api.UID)
}
