package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

const (
	pluginName   = "nvidia-device-plugin-daemonset"
	pluginConfig = "device-plugin-config" // ConfigMap, in the namespace of the plugin's pod
	pluginKey    = "config.yaml"          // where the node's label names none
	pluginGrace  = 10 * time.Second       // without a plugin, until its resources are gone
)

// pluginFault is what the log of the plugin's container says under the fault
// device-plugin.
const pluginFault = "berth: simulated fault: the device plugin cannot start"

// pluginCrash is what the plugin's container does when it cannot start: it says why.
func pluginCrash(why string) Plan {
	return Plan{Duration: time.Second, ExitCode: 1, Steps: []Step{{Text: why}}, Idle: true}
}

// brokenConfig is a ConfigMap with which the device plugin of a node cannot start.
type brokenConfig struct {
	namespace string // of the ConfigMap and the plugin; "" is that there is none
	why       string
}

// errNoKey is that the ConfigMap lacks the key that a node's label names. A plugin that runs then keeps what it has.
var errNoKey = errors.New("does not exist")

// isPlugin reports whether a pod is the device plugin as the operator or
// NVIDIA's own manifest installs it.
func isPlugin(p *v1.Pod) bool {
	if p.Namespace != "gpu-operator" && p.Namespace != metav1.NamespaceSystem {
		return false
	}
	owner := metav1.GetControllerOf(p)
	return p.Labels["name"] == "nvidia-device-plugin-ds" || p.Labels["app"] == pluginName ||
		p.Labels["app.kubernetes.io/name"] == "nvidia-device-plugin" ||
		owner != nil && owner.Kind == "DaemonSet" && owner.Name == pluginName
}

// configLabel is where a node's plugin configuration is read from.
type configLabel struct {
	known bool
	key   string // value of the node's label; "" is none
}

// unrenamed returns the name of a resource before renameByDefault.
func unrenamed(resource string) string {
	return strings.TrimSuffix(resource, strings.TrimPrefix(gpu.SharedResource(""), ""))
}

// configure does what a device plugin does when it starts, and when the node's
// label changes: reads the ConfigMap of its namespace and offers the devices
// again. Without a ConfigMap the node offers what it did before it read one. With one that is
// invalid the plugin crashes until it is mended, and the node and the pod get an event with the
// fix; with one that lacks the node's key nothing changes. by is the plugin's pod.
func (n *node) configure(ctx context.Context, by *v1.Pod) {
	client := n.fleet.client.CoreV1().ConfigMaps(by.Namespace)
	cm, err := client.Get(ctx, pluginConfig, metav1.GetOptions{})
	elsewhere := apierrors.IsNotFound(err) && n.configElsewhere(ctx, by.Namespace)
	if ctx.Err() != nil || elsewhere {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	own := n.spec.Sharing // without a ConfigMap
	if n.spec.Before != nil {
		own = *n.spec.Before
	}
	var s gpu.Sharing
	before := &own
	var warnings []string
	switch {
	case apierrors.IsNotFound(err) && n.spec.Before == nil:
		n.mended(by)
		return
	case apierrors.IsNotFound(err):
		s, before, err = own, nil, nil
	case err == nil:
		s, warnings, err = n.readConfig(cm)
	default:
		n.fleet.log.Warn("the device plugin's configuration is not read", "node", n.name, "error", err)
		return
	}
	for _, w := range warnings {
		n.fleet.events.pod(by, n.name, v1.EventTypeWarning, "PluginConfig", w, "")
	}
	if err == nil {
		if err = n.setDevices(s); err == nil {
			n.spec.Before = before
		}
	}
	if err != nil {
		then := "the device plugin crashes, and the node offers no GPUs until it is corrected"
		if errors.Is(err, errNoKey) {
			then = "the node keeps its current GPUs"
		} else {
			n.crash(by, err)
		}
		text := fmt.Sprintf("ConfigMap %s/%s is invalid; %s: %v", by.Namespace, pluginConfig, then, err)
		n.fleet.events.pod(by, n.name, v1.EventTypeWarning, "InvalidPluginConfig", text, "")
		n.event(v1.EventTypeWarning, "InvalidPluginConfig", text)
		return
	}
	n.mended(by)
	n.event(v1.EventTypeNormal, "PluginConfig", fmt.Sprintf("the device plugin offers %s", offer(n.ledger.Devices())))
	n.fleet.queue.Add(n)
}

// crash ends the plugin that cannot start with its configuration, as NVIDIA's does (its main.go: "unable to load config"), with mu held.
func (n *node) crash(by *v1.Pod, err error) {
	n.refused = brokenConfig{by.Namespace, fmt.Sprintf("error starting plugins: unable to load config: %v", err)}
	now := n.fleet.now()
	n.replan(by.Namespace, func(_ *pod, c *container) { c.crash(n.refused.why, now) })
}

// crash ends the run of a plugin's container now, which says why.
func (c *container) crash(why string, now time.Time) {
	c.plan = pluginCrash(why)
	c.plan.Duration = now.Sub(c.begun)
}

// mended has the plugin run on that has read its configuration, with mu held.
func (n *node) mended(by *v1.Pod) {
	if n.refused.namespace != by.Namespace {
		return
	}
	n.refused = brokenConfig{}
	n.replan(by.Namespace, func(p *pod, c *container) { c.plan = n.plan(p, c) })
}

// replan changes what the containers that run of the plugin of a namespace do, with mu held.
func (n *node) replan(namespace string, change func(*pod, *container)) {
	for _, p := range n.pods {
		if !p.plugin || p.api.Namespace != namespace {
			continue
		}
		for _, c := range p.containers {
			if c.running() {
				change(p, c)
			}
		}
		n.fleet.queue.Add(p)
	}
	n.fleet.queue.Add(n)
}

// configElsewhere reports whether the node has a device plugin in another namespace that
// may have the ConfigMap: nodes can have the plugin of the operator and that of NVIDIA's
// manifest.
func (n *node) configElsewhere(ctx context.Context, but string) bool {
	others := map[string]bool{}
	n.mu.Lock()
	for _, p := range n.pods {
		if p.plugin && p.api.Namespace != but {
			others[p.api.Namespace] = true
		}
	}
	n.mu.Unlock()
	for namespace := range others {
		if _, err := n.fleet.client.CoreV1().ConfigMaps(namespace).Get(ctx, pluginConfig, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return true
		}
	}
	return false
}

// readConfig parses the key of the ConfigMap that is meant for this node.
func (n *node) readConfig(cm *v1.ConfigMap) (gpu.Sharing, []string, error) {
	key := n.config.key
	if key == "" {
		key = pluginKey
	}
	data, ok := cm.Data[key]
	if !ok {
		keys := slices.Sorted(maps.Keys(cm.Data))
		return gpu.Sharing{}, nil, fmt.Errorf("specified config %s %w; the keys are %s; label the node %s=KEY or add it",
			key, errNoKey, strings.Join(keys, ", "), api.LabelPluginConfig)
	}
	s, warnings, err := config.Parse(key, []byte(data))
	if s.MIGStrategy == "" {
		s.MIGStrategy = n.spec.Sharing.MIGStrategy // the operator sets it beside the file
	}
	if err == nil {
		err = config.Check(s, n.spec.GPU())
	}
	return s, warnings, err
}

// setDevices offers the node's GPUs as s says, with the faults in force, with
// mu held. A pod whose device is no longer offered gets another on the same GPU
// if there is one; else it is ended, as a kubelet does on re-admission.
func (n *node) setDevices(s gpu.Sharing) error {
	gpus := n.drained(n.faults.apply(n.spec.GPUs))
	held := n.ledger.Held()
	gone, err := n.ledger.Reset(gpus, s)
	if err != nil {
		return err
	}
	n.gpus, n.spec.Sharing = gpus, s
	for _, owner := range gone {
		n.ledger.Release(owner)
	}
	for _, owner := range gone {
		n.moveDevices(owner, held)
	}
	health := map[string]sharing.Device{}
	for _, h := range n.ledger.Held() {
		health[h.Device.ID] = h.Device
	}
	for _, p := range n.pods {
		for _, c := range p.containers {
			for i, d := range c.devices {
				if now, ok := health[d.ID]; ok {
					now.Resource = d.Resource // as the container asked for it
					c.devices[i] = n.kept(now)
				}
			}
		}
		n.fleet.queue.Add(p)
	}
	n.fleet.queue.Add(n)
	return nil
}

// moveDevices finds devices for an owner that lost some: of the same GPU, in
// the form that is offered now.
func (n *node) moveDevices(owner string, held []sharing.Holding) {
	var p *pod
	for _, q := range n.pods {
		if string(q.api.UID) == owner {
			p = q
		}
	}
	moved := map[string]sharing.Device{}
	for _, h := range held {
		if h.Owner != owner {
			continue
		}
		ok := slices.ContainsFunc(n.ledger.Devices(), func(d sharing.Device) bool {
			if d.GPU != h.Device.GPU || taken(moved, d.ID) || n.ledger.Restore(owner, []string{d.ID}) != nil {
				return false
			}
			d.Resource = h.Device.Resource
			moved[h.Device.ID] = d
			return true
		})
		if !ok {
			n.ledger.Release(owner)
			if p != nil {
				p.reject(fmt.Sprintf("Allocate failed due to device %s of %s is no longer offered since the device plugin's configuration changed, which is unexpected",
					h.Device.ID, h.Device.Resource))
			}
			return
		}
	}
	if p == nil {
		return
	}
	for _, c := range p.containers {
		for i, d := range c.devices {
			c.devices[i] = moved[d.ID]
		}
	}
}

func taken(moved map[string]sharing.Device, id string) bool {
	for _, d := range moved {
		if d.ID == id {
			return true
		}
	}
	return false
}

// offer says in words what devices there are.
func offer(devices []sharing.Device) string {
	var out []string
	count := sharing.Capacity(devices)
	for _, name := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%s: %d", name, count[name]))
	}
	return strings.Join(out, ", ")
}

// pluginRuns reports whether the node's device resources are served, and when
// that will change if nothing happens. Fleets without system pods always have
// a plugin.
func (n *node) pluginRuns(now time.Time) (bool, time.Time) {
	if n.faults.plugin || n.refused.namespace != "" {
		return false, time.Time{}
	}
	if !n.fleet.system || len(n.spec.GPUs) == 0 {
		return true, time.Time{}
	}
	for _, p := range n.pods {
		if p.plugin && p.ready && !p.finished {
			n.since = time.Time{}
			return true, time.Time{}
		}
	}
	if n.since.IsZero() {
		n.since = now
	}
	if end := n.since.Add(pluginGrace); now.Before(end) {
		return true, end
	}
	return false, time.Time{}
}
