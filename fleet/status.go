package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// own are the conditions that a kubelet writes; all others are left as they are.
var own = []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady}

// status returns what the pod's status is at now, as a kubelet writes it. It
// begins with the status that the API server has, so conditions of others
// stay.
func (p *pod) status(now time.Time) *v1.PodStatus {
	s := p.api.Status // a copy; slices are replaced, not changed
	s.Phase, s.Reason, s.Message = p.phase(), p.reason, p.message
	s.ObservedGeneration = p.api.Generation
	s.NominatedNodeName = ""
	if p.rejected {
		return &s
	}
	at := seconds(p.started)
	s.StartTime = &at
	s.HostIP, s.HostIPs = p.node.ip, []v1.HostIP{{IP: p.node.ip}}
	if p.ip != "" {
		s.PodIP, s.PodIPs = p.ip, []v1.PodIP{{IP: p.ip}}
	}
	s.InitContainerStatuses = p.containerStatuses(now, roleInit, roleSidecar)
	s.ContainerStatuses = p.containerStatuses(now, roleApp)
	s.EphemeralContainerStatuses = p.containerStatuses(now, roleEphemeral)
	s.Conditions = p.conditions(s.Phase, now)
	return &s
}

func (p *pod) containerStatuses(now time.Time, roles ...role) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for _, c := range p.containers {
		if !slices.Contains(roles, c.role) {
			continue
		}
		s := v1.ContainerStatus{
			Name: c.spec.Name, State: c.state, LastTerminationState: c.last, Ready: c.isReady(now), RestartCount: c.restarts,
			Image: c.spec.Image, Started: new(c.hasStarted(now)), AllocatedResourcesStatus: allocated(c.spec, c.devices),
		}
		if !c.begun.IsZero() {
			s.ContainerID, s.ImageID = p.containerID(c), simScheme+c.image
		}
		if c.role == roleInit || c.role == roleEphemeral {
			s.Started = new(c.running())
		}
		out = append(out, s)
	}
	return out
}

// phase follows the documented meaning of pod phases, in the way a kubelet
// derives them from its containers.
func (p *pod) phase() v1.PodPhase {
	switch {
	case p.rejected || p.reason != "" || p.finished && p.anyFailed():
		return v1.PodFailed
	case p.finished:
		return v1.PodSucceeded
	}
	for _, c := range p.containers {
		never := c.state.Waiting != nil && c.last.Terminated == nil
		if c.role == roleApp && never || c.role == roleSidecar && never && !p.initialized() {
			return v1.PodPending
		}
	}
	return v1.PodRunning
}

// anyFailed reports whether a container of a finished pod failed, or never ran.
func (p *pod) anyFailed() bool {
	return slices.ContainsFunc(p.containers, func(c *container) bool {
		switch ended := c.state.Terminated; c.role {
		case roleApp:
			return ended == nil || ended.ExitCode != 0
		case roleInit:
			return ended != nil && ended.ExitCode != 0
		default:
			return false
		}
	})
}

// conditions returns the pod's conditions: those of others, and a kubelet's
// four. A condition that keeps its status keeps its time.
func (p *pod) conditions(phase v1.PodPhase, now time.Time) []v1.PodCondition {
	old := p.api.Status.Conditions
	out := make([]v1.PodCondition, 0, len(old)+len(own))
	for _, c := range old {
		if !slices.Contains(own, c.Type) {
			out = append(out, c)
		}
	}
	add := func(t v1.PodConditionType, status bool, reason, message string) {
		c := v1.PodCondition{
			Type: t, Status: v1.ConditionFalse, Reason: reason, Message: message,
			ObservedGeneration: p.api.Generation, LastTransitionTime: seconds(now),
		}
		if status {
			c.Status = v1.ConditionTrue
		}
		for _, before := range p.before() {
			if before.Type == t && before.Status == c.Status {
				c.LastTransitionTime = before.LastTransitionTime
			}
		}
		out = append(out, c)
	}
	if !slices.ContainsFunc(out, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled }) {
		add(v1.PodScheduled, true, "", "")
	}
	add(v1.PodReadyToStartContainers, p.mounted && !p.finished, "", "")
	ok, reason, message := p.isInitialized(phase, now)
	add(v1.PodInitialized, ok, reason, message)
	ok, reason, message = p.containersReady(phase, now)
	add(v1.ContainersReady, ok, reason, message)
	if ok {
		ok, reason, message = p.gates(out)
	}
	add(v1.PodReady, ok, reason, message)
	p.ready = ok
	return out
}

// before returns the newest conditions known: those last written, else the API
// server's.
func (p *pod) before() []v1.PodCondition {
	if p.written != nil {
		return p.written.Conditions
	}
	return p.api.Status.Conditions
}

func (p *pod) isInitialized(phase v1.PodPhase, now time.Time) (bool, string, string) {
	if phase == v1.PodSucceeded {
		return true, "PodCompleted", ""
	}
	var waits []string
	for _, c := range p.of(roleInit, roleSidecar) {
		if !p.initialized() && !(c.role == roleInit && c.isReady(now)) && !(c.role == roleSidecar && c.hasStarted(now)) {
			waits = append(waits, c.spec.Name)
		}
	}
	if waits != nil {
		return false, "ContainersNotInitialized", fmt.Sprintf("containers with incomplete status: %v", waits)
	}
	return true, "", ""
}

func (p *pod) containersReady(phase v1.PodPhase, now time.Time) (bool, string, string) {
	switch phase {
	case v1.PodSucceeded:
		return false, "PodCompleted", ""
	case v1.PodFailed:
		return false, "PodFailed", ""
	case v1.PodPending, v1.PodRunning, v1.PodUnknown: // as its containers are
	}
	var waits []string
	for _, c := range p.of(roleSidecar, roleApp) {
		if !c.isReady(now) {
			waits = append(waits, c.spec.Name)
		}
	}
	if waits != nil {
		return false, "ContainersNotReady", fmt.Sprintf("containers with unready status: %v", waits)
	}
	return true, "", ""
}

// gates checks the pod's readiness gates against the conditions of others.
func (p *pod) gates(conditions []v1.PodCondition) (bool, string, string) {
	var wrong []string
	for _, gate := range p.api.Spec.ReadinessGates {
		i := slices.IndexFunc(conditions, func(c v1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case i < 0:
			wrong = append(wrong, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case conditions[i].Status != v1.ConditionTrue:
			wrong = append(wrong, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, conditions[i].Status))
		}
	}
	if wrong != nil {
		return false, "ReadinessGatesNotReady", strings.Join(wrong, ", ")
	}
	return true, "", ""
}
