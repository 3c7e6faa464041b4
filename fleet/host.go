package fleet

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/fleet/host"
	"berth.dev/berth/fleet/kubelet"
	"berth.dev/berth/fleet/system"
)

// HostRunner runs processes of this machine in place of containers: see
// *host.Runner, which is the real one. Its methods are called with locks held
// and do not wait for processes.
type HostRunner interface {
	Start(host.Request)
	Stop(k host.Key, grace time.Duration)
	State(k host.Key) (host.State, bool)
	Forget(uid string)               // the pod is gone
	Discard(namespace, claim string) // the volume of a claim is gone
}

const (
	hostScheme = "berth-host://" // of the ID of a container that a process backs
	simScheme  = "berth-sim://"
	// goneGrace is how long a process may take to end whose pod has ended already.
	goneGrace = 2 * time.Second
	// lostCode and lostReason are what a kubelet notes of a container that a
	// restart of its node has ended.
	lostCode, lostReason = 255, "Unknown"
)

// rule returns the rule for a container, if a process may back it: only
// containers of the pod itself, as an init container would never end, and none
// of the DaemonSets of the system, so a wide pattern leaves the device plugin alone.
func (p *pod) rule(c *container) (host.Rule, bool) {
	f, ns, owner := p.node.fleet, p.api.Namespace, metav1.GetControllerOfNoCopy(p.api)
	daemon := ns == metav1.NamespaceSystem && owner != nil && owner.Kind == "DaemonSet"
	if f.host == nil || c.role != roleApp || daemon || ns == system.OperatorNamespace {
		return host.Rule{}, false
	}
	return f.hostRules.Find(c.spec.Image)
}

// key names the current or last run of a container.
func (p *pod) key(c *container) host.Key {
	return host.Key{UID: string(p.api.UID), Container: c.spec.Name, Run: int(c.restarts)}
}

// back starts a process in place of a container that has just begun, if there
// is a rule for it. A container whose simulation is wrong fails as others do.
func (p *pod) back(c *container) {
	f := p.node.fleet
	c.hosted, c.answers, c.told = false, false, false
	rule, ok := p.rule(c)
	if !ok || c.plan.Reason == invalidSimulation {
		if t := c.last.Terminated; t != nil && isHosted(t.ContainerID) {
			p.event(v1.EventTypeWarning, "HostProcess", "Simulated from now on, as there is no --host-process for image "+c.spec.Image+
				"; what its process wrote to a volume stays in the data folder", c)
		}
		return
	}
	c.hosted = true
	c.plan = Plan{Forever: true, UtilizationRatio: c.plan.UtilizationRatio, MemoryBytes: c.plan.MemoryBytes, Curve: c.plan.Curve}
	api, spec, seen := p.api, c.spec, kubelet.Container{Name: c.spec.Name, Devices: slices.Clone(c.devices)}
	claim, sub := home(api, c.spec)
	f.host.Start(host.Request{
		Key: p.key(c), Rule: rule, Namespace: api.Namespace, Pod: api.Name, Claim: claim, SubPath: sub,
		Environ: func() []string {
			return f.localNames(api.Namespace, declaredOnly(spec, f.environ(api, &seen)))
		},
		GPUs: len(c.devices) > 0, Probe: hostProbe(api, c.spec),
		Changed: func() { f.queue.Add(p) },
	})
}

// declaredOnly leaves out of an environment what a kubelet or an image sets, for
// it says where things are in an image and on the simulated network.
func declaredOnly(c *v1.Container, env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		own := key == "PATH" || key == "HOME" || strings.HasPrefix(key, "KUBERNETES_SERVICE_")
		return own && !slices.ContainsFunc(c.Env, func(e v1.EnvVar) bool { return e.Name == key })
	})
}

// isHosted reports whether a container ID is that of a run on this machine.
func isHosted(id string) bool { return strings.HasPrefix(id, hostScheme) }

// follow takes what became of the process behind a running container.
func (p *pod) follow(c *container, now time.Time) {
	s, ok := p.node.fleet.host.State(p.key(c))
	if !ok {
		p.end(c, now, lostCode, lostReason, "its process is unknown")
		return
	}
	if s.PID != 0 && !c.told {
		c.told = true
		p.event(v1.EventTypeNormal, "HostProcess", started(s, hostProbe(p.api, c.spec)), c)
	}
	changed := c.image != c.spec.Image
	if e := s.Exit; e != nil {
		p.end(c, e.At, e.Code, e.Reason, e.Message)
		if e.Reason == host.ReasonRefused || e.Reason == host.ReasonStart {
			p.event(v1.EventTypeWarning, e.Reason, e.Message, c)
		}
		if changed {
			c.crashes, c.retry = 0, now
		}
		return
	}
	c.answers = s.Ready
	if changed && !c.stopping {
		c.stopping = true
		p.event(v1.EventTypeNormal, "Killing", fmt.Sprintf("Container %s definition changed, will be restarted", c.spec.Name), c)
		p.node.fleet.host.Stop(p.key(c), graceOf(p.api))
	}
}

// started says what runs where.
func started(s host.State, probe host.Probe) string {
	text := fmt.Sprintf("Runs on this machine as process %d: %s; ", s.PID, strings.Join(s.Command, " "))
	if !probe.None {
		text += fmt.Sprintf("it answers at 127.0.0.1:%d and ", s.Port)
	}
	text += "its folder is " + s.Home
	if len(s.LeftOut) > 0 {
		text += "; these variables were not passed to it: " + strings.Join(s.LeftOut, ", ") + " (`berth up --host-env NAME` passes them)"
	}
	return text
}

// graceOf is the grace period of a pod that is not being deleted.
func graceOf(api *v1.Pod) time.Duration {
	if s := api.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return v1.DefaultTerminationGracePeriodSeconds * time.Second
}

// stopProcesses tells the processes of a pod that is being deleted to end, and
// reports whether some still run. Their end wakes the pod.
func (p *pod) stopProcesses(now time.Time) bool {
	some := false
	for _, c := range p.containers {
		if c.running() && c.hosted {
			some = true
			p.node.fleet.host.Stop(p.key(c), p.api.DeletionTimestamp.Sub(now))
		}
	}
	return some
}

// resume decides after a restart of the fleet about a container that ran, of
// which status s tells: its process is gone. It ends the run, and the pod's
// policy starts it again, with a process or without. One that was simulated and
// now has a rule gets its process, unless its pod would not be started again.
func (p *pod) resume(c *container, s *v1.ContainerStatus) {
	was := isHosted(s.ContainerID)
	_, rule := p.rule(c)
	c.hosted = was
	message := "berth up ended, and its process with it"
	if !was {
		message = "berth up was started with a --host-process for its image"
	}
	if !was && (!rule || p.api.Spec.RestartPolicy != v1.RestartPolicyAlways) || p.api.DeletionTimestamp != nil && !was {
		return
	}
	now := p.node.fleet.now()
	p.end(c, now, lostCode, lostReason, message)
	c.crashes, c.retry = 0, now
}

// forget drops what is kept for a pod that is gone.
func (f *Fleet) forget(p *pod) {
	f.hung.set(trainingJob(p.api), p.api.UID, false)
	if f.models != "" {
		_ = os.RemoveAll(f.modelFolder(p.api))
	}
	if f.host != nil {
		f.host.Forget(string(p.api.UID))
	}
}
