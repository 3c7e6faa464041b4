package fleet

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// restore reads back what a pod was doing from its status, after a restart of
// the fleet. Runs keep the time at which they began, so a plan that ended while
// it was not running ends at its own time.
func (p *pod) restore() {
	s := &p.api.Status
	if s.StartTime == nil && !terminal(s.Phase) {
		return
	}
	p.written = s.DeepCopy()
	p.ip, p.reason, p.message = s.PodIP, s.Reason, s.Message
	if s.StartTime != nil {
		p.started, p.seen = s.StartTime.Time, s.StartTime.Time
	}
	p.finished = terminal(s.Phase)
	if p.finished && len(s.ContainerStatuses) == 0 {
		p.rejected = true
		return
	}
	for _, statuses := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range statuses {
			for _, c := range p.containers {
				if c.spec.Name == statuses[i].Name {
					p.restoreContainer(c, &statuses[i])
				}
			}
		}
	}
	for _, c := range s.Conditions {
		p.mounted = p.mounted || c.Type == v1.PodReadyToStartContainers && c.Status == v1.ConditionTrue
		p.ready = p.ready || c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	}
}

// restoreContainer reads back one container. The back-off goes on as if every
// restart had been a crash.
func (p *pod) restoreContainer(c *container, s *v1.ContainerStatus) {
	c.state, c.last, c.restarts, c.crashes = s.State, s.LastTerminationState, s.RestartCount, int(s.RestartCount)
	c.image = c.spec.Image
	c.hosted = isHosted(s.ContainerID)
	if s.ImageID != "" {
		p.node.images[c.spec.Image] = true
	}
	switch {
	case s.State.Running != nil:
		c.begun = s.State.Running.StartedAt.Time
	case s.State.Terminated != nil:
		c.begun = s.State.Terminated.StartedAt.Time
		c.retry = s.State.Terminated.FinishedAt.Add(delay(c.crashes))
	case s.LastTerminationState.Terminated != nil:
		c.begun = s.LastTerminationState.Terminated.StartedAt.Time
		c.retry = s.LastTerminationState.Terminated.FinishedAt.Add(delay(c.crashes))
	}
	if !c.begun.IsZero() && c.begun != (time.Time{}) {
		c.plan = p.node.plan(p, c)
	}
	if s.State.Running != nil {
		p.lostDownload(c)
		p.resume(c, s)
	}
}
