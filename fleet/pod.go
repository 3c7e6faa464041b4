package fleet

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/core/sharing"
	"berth.dev/berth/fleet/kubelet"
)

// role is what a container is to its pod.
type role int

const (
	roleInit      role = iota // runs once, before the next
	roleSidecar               // an init container that keeps running
	roleApp                   // a container of the pod
	roleEphemeral             // added by kubectl debug
)

// pod is what a simulated kubelet knows of one pod. Its fields are guarded by
// the node's mutex, but only the one worker in run changes those below alarm.
type pod struct {
	node  *node
	api   *v1.Pod // newest seen, without managed fields
	alarm alarm

	gone      bool // deleted at the API server
	deleted   bool // the final DELETE was sent
	released  bool // holds no device and no address any more
	plugin    bool // runs the device plugin
	ready     bool // Ready as of the last run, for plugin
	configure bool // the plugin is to read its configuration

	containers []*container // init, app, ephemeral; in the order of the spec
	seen       time.Time    // when the node first saw it
	started    time.Time    // status.startTime
	ip         string
	mounted    bool      // sandbox and volumes are there
	missing    []missing // objects that containers or volumes need and that are not there
	lookAt     time.Time // when to look for missing ones again
	looked     int       // how often that was in vain
	finished   bool      // no container will run again
	stopSeen   bool      // the deletion was noticed
	reason     string    // status.reason and message of a rejected or overdue pod
	message    string
	rejected   bool
	written    *v1.PodStatus // last acknowledged by the API server
	next       time.Time     // when advance has something to do; zero is never
}

// container is one container of a pod over all its runs.
type container struct {
	spec    *v1.Container
	role    role
	devices []sharing.Device

	state    v1.ContainerState
	last     v1.ContainerState // how the run before ended
	begun    time.Time         // of the current or last run
	plan     Plan              // of the current or last run
	image    string            // of the current or last run
	restarts int32
	crashes  int // restarts in a row, for the back-off
	pulls    int // failed pulls in a row
	failure  string
	pulled   time.Time // when a pull under way will end
	retry    time.Time // not tried before

	hosted   bool // a process of this machine backs the current or last run
	answers  bool // it is ready
	told     bool // an event says where it runs
	stopping bool // it was told to end because its image changed

	download *download // of a model, by the current run; nil is none

	asked *kubelet.Asked // of a model server; nil is nothing yet

	hung *hang // that the current or last run stands still, or did at its end
}

// newPod makes the record of a pod that no node has worked on.
func newPod(n *node, api *v1.Pod, now time.Time) *pod {
	p := &pod{node: n, api: api, seen: now, plugin: isPlugin(api)}
	p.alarm.task = p
	p.update(api)
	return p
}

// update takes a newer version of the object.
func (p *pod) update(api *v1.Pod) {
	p.api = api
	i := 0
	add := func(spec *v1.Container, r role) {
		if i == len(p.containers) {
			p.containers = append(p.containers, &container{role: r, state: waiting("ContainerCreating", "")})
		}
		p.containers[i].spec = spec
		i++
	}
	for j := range api.Spec.InitContainers {
		c := &api.Spec.InitContainers[j]
		if restartsAlways(c) {
			add(c, roleSidecar)
		} else {
			add(c, roleInit)
		}
	}
	for j := range api.Spec.Containers {
		add(&api.Spec.Containers[j], roleApp)
	}
	for j := range api.Spec.EphemeralContainers {
		c := v1.Container(api.Spec.EphemeralContainers[j].EphemeralContainerCommon)
		add(&c, roleEphemeral)
	}
	if len(api.Spec.InitContainers) == 0 {
		return
	}
	for _, c := range p.containers {
		if c.state.Waiting != nil && c.state.Waiting.Reason == "ContainerCreating" {
			c.state = waiting("PodInitializing", "")
		}
	}
}

func (p *pod) ref() podRef {
	return podRef{node: p.node.name, namespace: p.api.Namespace, name: p.api.Name, uid: p.api.UID}
}

// wake notes that advance has something to do at a time.
func (p *pod) wake(at time.Time) {
	if p.next.IsZero() || at.Before(p.next) {
		p.next = at
	}
}

// of returns the containers of a role.
func (p *pod) of(roles ...role) []*container {
	var out []*container
	for _, c := range p.containers {
		if slices.Contains(roles, c.role) {
			out = append(out, c)
		}
	}
	return out
}

// terminal reports whether a phase is final.
func terminal(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

func waiting(reason, message string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// seconds cuts a time as the API server stores it.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// running reports whether a run is under way.
func (c *container) running() bool { return c.state.Running != nil }

// hasStarted reports whether its startup probe, if any, has passed.
func (c *container) hasStarted(now time.Time) bool {
	if c.hosted {
		return c.running() && (c.answers || c.spec.StartupProbe == nil)
	}
	return c.running() && !now.Before(c.startedAt())
}

// startedAt is when the startup probe passes: a simulated probe succeeds one
// second after its initial delay.
func (c *container) startedAt() time.Time { return c.begun.Add(probe(c.spec.StartupProbe)) }

// readyAt is when the container becomes ready. The readiness probe waits for
// the startup probe.
func (c *container) readyAt() time.Time {
	if m := c.plan.Model; m != nil {
		return c.begun.Add(m.Load)
	}
	at := c.begun.Add(probe(c.spec.ReadinessProbe))
	if s := c.startedAt(); at.Before(s) {
		return s
	}
	return at
}

func probe(p *v1.Probe) time.Duration {
	if p == nil {
		return 0
	}
	again := max(0, p.SuccessThreshold-1) * max(1, p.PeriodSeconds)
	return time.Duration(p.InitialDelaySeconds+1+again) * time.Second
}

// isReady is the ready of the container's status.
func (c *container) isReady(now time.Time) bool {
	if c.role == roleInit {
		return c.state.Terminated != nil && c.state.Terminated.ExitCode == 0
	}
	if c.hosted {
		return c.running() && c.answers
	}
	if m := c.plan.Model; m != nil && m.Absent {
		return false
	}
	return c.running() && c.role != roleEphemeral && !now.Before(c.readyAt())
}
