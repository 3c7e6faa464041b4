package agent

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"berth.dev/berth/agent/labels"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/api"
	coremig "berth.dev/berth/core/mig"
	"berth.dev/berth/kube/devices"
)

// cluster is what the agent tells the API server, and what it hears of its node.
type cluster struct {
	client kubernetes.Interface
	writer *labels.Writer
	events *labels.Events

	found    labels.Discovery
	plugin   latest[string]    // the label that chooses the configuration
	geometry latest[string]    // the label that chooses the MIG configuration
	before   chan []nvml.Event // of capacity 1: what an earlier agent had marked
	heard    bool              // of the node; hear's alone
	anew     chan struct{}     // of capacity 1: there is something to write
	mu       sync.Mutex
	migState coremig.State // with mu
}

// retryWrite is how long after labels could not be written it is tried again.
const retryWrite = 5 * time.Second

// connect makes the clients, where there is an API server.
func (a *agent) connect(g *group) error {
	if a.o.Pods == PodsKubelet {
		return nil
	}
	config, err := restConfig(a.o.Kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = labels.Manager
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &asNode{node: a.o.NodeName, next: next, log: a.o.Log}
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create a client for the cluster: %w", err)
	}
	c := &cluster{
		client: client, plugin: newLatest[string](), geometry: newLatest[string](),
		anew: make(chan struct{}, 1), before: make(chan []nvml.Event, 1),
		events: labels.NewEvents(labels.EventsOptions{Client: client.CoreV1(), Node: a.o.NodeName, Log: a.o.Log}),
	}
	c.writer = labels.NewWriter(labels.WriterOptions{
		Nodes: client.CoreV1().Nodes(), Node: a.o.NodeName, Force: a.o.TakeLabels, Event: c.nodeEvent, Log: a.o.Log,
	})
	a.cluster = c
	if a.o.Settings.Dir != "" {
		a.o.Settings.Label = c.plugin
	}
	g.run(func(ctx context.Context) error {
		watchNode(ctx, client, a.o.NodeName, c.hear)
		return nil
	})
	g.run(func(ctx context.Context) error {
		c.events.Run(ctx)
		return nil
	})
	return nil
}

func restConfig(path string) (*rest.Config, error) {
	if path != "" {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		return config, nil
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w; give --kubeconfig, or --pods kubelet for a node without an API server", err)
	}
	return config, nil
}

// hear takes the node as the watch has it.
func (c *cluster) hear(n *v1.Node) {
	if !c.heard {
		c.heard = true
		c.before <- marked(n)
	}
	c.plugin.put(pluginLabel(n))
	c.geometry.put(n.Labels[api.LabelMIGConfig])
	if c.writer.Changed(n) {
		c.nudge()
	}
}

// marked returns the GPUs that the node's inventory says are unhealthy by an Xid.
func marked(n *v1.Node) []nvml.Event {
	list, err := devices.Inventory(n)
	if err != nil {
		return nil
	}
	var out []nvml.Event
	for _, g := range list {
		if !g.Healthy && g.Xid != 0 {
			out = append(out, nvml.Event{UUID: g.UUID, Xid: g.Xid, GI: -1, CI: -1})
		}
	}
	return out
}

func (c *cluster) nudge() {
	select {
	case c.anew <- struct{}{}:
	default:
	}
}

func (c *cluster) podEvent(pod *v1.Pod, kind, reason, message string) {
	c.events.OnPod(pod, kind, reason, message)
}

func (c *cluster) nodeEvent(kind, reason, message string) { c.events.OnNode(kind, reason, message) }

// setMIGState has the label of the MIG manager written with the others.
func (c *cluster) setMIGState(_ context.Context, s coremig.State) error {
	c.mu.Lock()
	c.migState = s
	c.mu.Unlock()
	c.nudge()
	return nil
}

// publish writes labels and annotations whenever there is something new to say.
func (a *agent) publish(g *group) error {
	a.reconciler.listen = func(s Status) {
		a.status.Store(&s)
		a.changedGPUs()
		if a.cluster != nil {
			a.cluster.nudge()
		}
	}
	if a.o.Observe {
		return nil
	}
	a.reconciler.prepare = func(s Status) {
		a.status.Store(&s) // a container may start with what is offered as soon as it is
		a.setMPS()
		a.node.SetDraining(s.Drained)
	}
	a.reconciler.faulty = a.mps.Unhealthy
	g.run(func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-a.node.HoldersChanged():
				a.freed()
			}
		}
	})
	if a.cluster == nil {
		return nil
	}
	c := a.cluster
	a.reconciler.nodeEvent, a.reconciler.earlier = a.nodeEvent, c.before
	c.found = labels.Discovery{Machine: labels.ReadMachine(a.initial.GFD.MachineTypeFile), VGPU: labels.ReadVGPU(os.DirFS("/sys"))}
	if !a.initial.GFD.NoTimestamp {
		c.found.Start = time.Now()
	}
	g.run(func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-c.anew:
			}
			if err := a.write(ctx); err != nil && ctx.Err() == nil {
				a.o.Log.Warn("the node is not labeled yet", "error", err)
				time.AfterFunc(retryWrite, c.nudge)
			}
		}
	})
	return nil
}

// write says all that is to be said of the node now.
func (a *agent) write(ctx context.Context) error {
	s := a.now()
	if !s.InForce || s.Unread != "" && len(s.Snapshot.GPUs) == 0 {
		return nil // nothing is known yet
	}
	l, notes, err := a.texts(s)
	if err != nil {
		return err
	}
	if path := s.Settings.GFD.OutputFile; path != "" {
		if err := writeFeatures(path, l); err != nil {
			return err
		}
	}
	return a.cluster.writer.Write(ctx, l, notes)
}

// texts are labels and annotations for a status.
func (a *agent) texts(s Status) (l, notes map[string]string, err error) {
	l = labels.GFD(s.Snapshot, s.Settings.Sharing, a.cluster.found)
	l[api.LabelAllocation] = a.allocationMode()
	if a.o.FakeFile != "" {
		l[api.LabelFakeGPUs] = "true"
	}
	a.cluster.mu.Lock()
	if state := a.cluster.migState; state != "" {
		l[api.LabelMIGState] = string(state)
	}
	a.cluster.mu.Unlock()
	if l[api.LabelAllocation] != api.AllocationCommitted {
		// Without an inventory Berth's scheduler leaves the choice to the kubelet.
		return l, map[string]string{}, nil
	}
	inventory := labels.Inventory(s.Snapshot, s.Settings.Sharing, func(uuid string) (bool, int) { return s.Healthy[uuid], s.Xid[uuid] })
	var observed []labels.Held
	for _, h := range a.node.Holders() {
		if !h.Committed {
			observed = append(observed, labels.Held{PodUID: h.PodUID, Container: h.Container, Devices: h.Devices})
		}
	}
	notes, err = labels.Annotations(inventory, s.Settings.Sharing, observed)
	return l, notes, err
}
