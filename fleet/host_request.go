package fleet

import (
	"cmp"
	"path"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/fleet/host"
)

// home chooses the volume that is the home of a container's process: of the
// claims that it mounts that at its working folder, else one below /home or at
// /root, else the first. No claim is a folder that goes with the pod.
func home(api *v1.Pod, c *v1.Container) (claim, sub string) {
	best := 0
	for _, m := range c.VolumeMounts {
		name := claimOf(api, m.Name)
		if name == "" || m.ReadOnly {
			continue
		}
		at, rank := path.Clean(m.MountPath), 1
		switch {
		case at == path.Clean(c.WorkingDir) && c.WorkingDir != "":
			rank = 3
		case strings.HasPrefix(at, "/home/") || at == "/home" || at == "/root":
			rank = 2
		}
		if rank > best {
			best, claim, sub = rank, name, m.SubPath
		}
	}
	return claim, sub
}

// claimOf returns the claim behind a volume of a pod, "" if it is none.
func claimOf(api *v1.Pod, volume string) string {
	for _, v := range api.Spec.Volumes {
		switch {
		case v.Name != volume:
		case v.PersistentVolumeClaim != nil:
			return v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			return api.Name + "-" + v.Name
		}
	}
	return ""
}

// hostProbe is the readiness probe of a container as its process is asked: an
// HTTP GET keeps its path, all others come down to a connection. Whatever port
// it names, the process has one. Without a probe, a program that is to end, as that of
// a training job, is ready when it runs, and a server when its port answers.
func hostProbe(api *v1.Pod, c *v1.Container) host.Probe {
	p := c.ReadinessProbe
	if p == nil {
		return host.Probe{None: api.Spec.RestartPolicy != v1.RestartPolicyAlways && !hubServer(api)}
	}
	out := host.Probe{
		Every: time.Duration(cmp.Or(p.PeriodSeconds, 10)) * time.Second, Delay: time.Duration(p.InitialDelaySeconds) * time.Second,
		Successes: int(p.SuccessThreshold), Failures: int(cmp.Or(p.FailureThreshold, 3)),
	}
	if g := p.HTTPGet; g != nil && declares(c, g.Port) {
		out.Path, out.TLS = cmp.Or(g.Path, "/"), g.Scheme == v1.URISchemeHTTPS
	}
	return out
}

// declares reports whether a probe's port is the one that a process stands for:
// the first declared one, or any if none is declared.
func declares(c *v1.Container, port intstr.IntOrString) bool {
	if len(c.Ports) == 0 {
		return true
	}
	first := c.Ports[0]
	return port.Type == intstr.String && port.StrVal == first.Name || port.Type == intstr.Int && port.IntVal == first.ContainerPort
}
