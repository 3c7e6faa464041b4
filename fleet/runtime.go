package fleet

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/fleet/kubelet"
	"berth.dev/berth/kube/request"
)

// Nodes returns the names of the simulated nodes, sorted.
func (f *Fleet) Nodes() []string {
	var out []string
	for _, n := range f.sorted() {
		out = append(out, n.name)
	}
	return out
}

// Containers returns the containers of the pods on a node, in the order of
// namespace, pod and spec. An empty node, namespace or pod means all. Env is
// filled in only where one pod is asked for.
func (f *Fleet) Containers(node, namespace, pod string) []kubelet.Container {
	nodes := f.sorted()
	if node != "" {
		nodes = nil
		if n := f.find(node); n != nil {
			nodes = append(nodes, n)
		}
	}
	var out []kubelet.Container
	for _, n := range nodes {
		var pods []*v1.Pod
		n.mu.Lock()
		for _, p := range n.chosen(namespace, pod) {
			for _, c := range p.containers {
				out = append(out, n.container(p, c, f.now(), pod != ""))
				pods = append(pods, p.api)
			}
		}
		n.mu.Unlock()
		if pod == "" {
			continue
		}
		for i, api := range pods {
			c := &out[len(out)-len(pods)+i]
			c.Env = f.environ(api, c)
		}
	}
	return out
}

// chosen returns pods of the node by namespace and name, sorted. Of two with the
// same name the one that is not being deleted comes last.
func (n *node) chosen(namespace, name string) []*pod {
	var out []*pod
	for _, p := range n.pods {
		if (namespace == "" || p.api.Namespace == namespace) && (name == "" || p.api.Name == name) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(a.api.Namespace, b.api.Namespace), cmp.Compare(a.api.Name, b.api.Name), a.seen.Compare(b.seen))
	})
	return out
}

// container describes one container; logs only for those who ask for one pod.
func (n *node) container(p *pod, c *container, now time.Time, logs bool) kubelet.Container {
	k := kubelet.Container{
		Namespace: p.api.Namespace, Pod: p.api.Name, UID: string(p.api.UID), Labels: p.api.Labels,
		Name: c.spec.Name, Node: n.name, Image: c.spec.Image, Init: c.role == roleInit || c.role == roleSidecar,
		State: kubelet.StateWaiting, Command: expand(c.spec.Command, p.api, c.spec), Args: expand(c.spec.Args, p.api, c.spec),
		WorkingDir: c.spec.WorkingDir, Shell: typedInto(c.spec), Hostname: hostname(p.api), RestartCount: int(c.restarts), StartedAt: c.begun, Devices: slices.Clone(c.devices),
	}
	for _, port := range c.spec.Ports {
		k.Ports = append(k.Ports, int(port.ContainerPort))
	}
	if m := c.plan.Model; m != nil {
		if len(k.Ports) == 0 {
			k.Ports = []int{modelPort}
		}
		if m.metrics == kubelet.MetricsTriton {
			k.Ports = append(k.Ports, tritonPort)
		}
	}
	switch {
	case c.state.Running != nil:
		k.State = kubelet.StateRunning
		k.Model = n.fleet.model(c, now)
		k.CPUMilli, k.MemoryBytes = usage(c, now)
		k.Jupyter = jupyter(c.plan, c.begun, now)
	case c.state.Terminated != nil:
		k.State, k.Reason, k.FinishedAt = kubelet.StateTerminated, c.state.Terminated.Reason, c.state.Terminated.FinishedAt.Time
	case c.state.Waiting != nil:
		k.Reason = c.state.Waiting.Reason
	}
	if c.hosted {
		p.hostView(c, &k, logs)
	}
	if logs && !c.begun.IsZero() {
		n.logs(p, c, &k, now)
	}
	return k
}

// logs fills in the log of the current run and of the one before.
func (n *node) logs(p *pod, c *container, k *kubelet.Container, now time.Time) {
	var ids []string
	for _, d := range c.devices {
		ids = append(ids, d.UUID)
	}
	if !c.hosted {
		end := k.FinishedAt
		if h := c.hung; h != nil && (end.IsZero() || h.from.Before(end)) {
			end = h.from
		}
		k.Lines = n.lines(c.plan, ids, c.begun, end, now)
		if c.download != nil {
			_, _, lines, _, _ := c.download.result()
			for _, line := range lines {
				k.Lines = append(k.Lines, kubelet.Line{At: c.begun, Text: line})
			}
		}
	}
	if t := c.last.Terminated; t != nil {
		if isHosted(t.ContainerID) {
			k.Previous = p.hostBefore(c)
		} else {
			k.Previous = n.lines(n.plan(p, c), ids, t.StartedAt.Time, t.FinishedAt.Time, now)
		}
		if k.State == kubelet.StateWaiting {
			k.Lines, k.FinishedAt = k.Previous, t.FinishedAt.Time
		}
	}
}

// Exit ends a run of a container whose shell was told to.
func (f *Fleet) Exit(node, uid, container string, restarts, code int) {
	n := f.find(node)
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[types.UID(uid)]
	if p == nil {
		return
	}
	for _, c := range p.containers {
		if c.spec.Name == container && c.running() && int(c.restarts) == restarts {
			c.plan = Plan{Duration: f.now().Sub(c.begun), ExitCode: int32(code), Idle: true}
			f.queue.Add(p)
		}
	}
}

// usage is what a container uses of CPU and memory: of what it asks for nearly
// all while it computes, next to nothing while it sleeps.
func usage(c *container, now time.Time) (cpuMilli, memoryBytes int64) {
	if c.plan.Idle {
		return 1, 1 << 20
	}
	cpu, memory := int64(100), int64(64<<20)
	if q, ok := c.spec.Resources.Requests[v1.ResourceCPU]; ok {
		cpu = request.MilliAmount(&q, request.MostMilli)
	}
	if q, ok := c.spec.Resources.Requests[v1.ResourceMemory]; ok {
		memory = request.Amount(&q, request.MostBytes)
	}
	if c.plan.Jupyter == jupyterTerminal {
		return programMilli, memory
	}
	part := max(20, int64(c.plan.UtilizationRatio*90)) + (now.Unix()+int64(len(c.spec.Name)))%5
	if cpu = cpu * part / 100; c.plan.CPUMilli > 0 {
		cpu = c.plan.CPUMilli
		if q, ok := c.spec.Resources.Limits[v1.ResourceCPU]; ok {
			cpu = min(cpu, request.MilliAmount(&q, request.MostMilli))
		}
	}
	return max(1, cpu), memory * (40 + part/3) / 100
}

// Usage returns what a node uses now, in thousandths of a CPU and bytes: its
// containers, and a little for the node itself.
func (f *Fleet) Usage(node string) (cpuMilli, memoryBytes int64) {
	n := f.find(node)
	if n == nil {
		return 0, 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	cpuMilli, memoryBytes = 40, 512<<20
	for _, p := range n.pods {
		for _, c := range p.containers {
			if c.running() {
				cpu, memory := usage(c, f.now())
				cpuMilli, memoryBytes = cpuMilli+cpu, memoryBytes+memory
			}
		}
	}
	return cpuMilli, memoryBytes
}
