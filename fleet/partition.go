package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/mig"
	"berth.dev/berth/core/sharing"
)

const (
	migConfig = "default-mig-parted-config" // ConfigMap of MIG configurations, as the GPU operator installs it
	migKey    = "config.yaml"
)

// migNamespaces are where migConfig is looked for, the first first.
var migNamespaces = []string{"gpu-operator", metav1.NamespaceSystem}

// partition is how the node's GPUs are to be partitioned, and how far that is.
type partition struct {
	label    string          // value of api.LabelMIGConfig
	due      bool            // the GPUs are to be compared with the label
	waits    bool            // pods hold GPUs that are to be partitioned
	draining map[string]bool // UUIDs of GPUs that get no new pods until they are partitioned
	state    mig.State       // for api.LabelMIGState
	why      string
	ours     bool // api.LabelMIGState is written by the fleet
}

// asks takes the value of the node's label, with mu held.
func (p *partition) asks(label string) {
	if label != p.label {
		p.label, p.due, p.waits = label, true, false
	}
}

// repartition does what an agent does when the node's label changes, or when a pod
// ends that it waits for. The first time, it only stops offering the GPUs that are to be
// partitioned, so the label says pending before anything is done. again says that there
// is more to do.
func (n *node) repartition(ctx context.Context) (again bool, err error) {
	select {
	case <-n.fleet.synced:
	default: // which pods hold GPUs is not known before
		return false, nil
	}
	n.mu.Lock()
	label, due := n.mig.label, n.mig.due && !n.broken()
	n.mu.Unlock()
	if !due {
		return false, nil
	}
	file, wrong, err := n.migFile(ctx, label)
	if err != nil {
		return false, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mig.label != label || n.broken() {
		return n.mig.due, nil
	}
	state, why, again := n.partition(file, wrong)
	n.mig.due = again
	n.say(state, why)
	return again, nil
}

// migFile returns the cluster's MIG configurations. wrong is what is wrong with them, for
// a label that needs them; err is that the API server does not answer.
func (n *node) migFile(ctx context.Context, label string) (file config.MIGFile, wrong, err error) {
	if label == "" {
		return file, nil, nil
	}
	for _, namespace := range migNamespaces {
		cm, err := n.fleet.client.CoreV1().ConfigMaps(namespace).Get(ctx, migConfig, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return file, nil, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, migConfig, err)
		}
		data, ok := cm.Data[migKey]
		if !ok {
			return file, fmt.Errorf("ConfigMap %s/%s has no key %s", namespace, migConfig, migKey), nil
		}
		file, wrong = config.ParseMIG(migKey, []byte(data))
		if wrong == nil {
			wrong = file.Faults[label]
		}
		return file, wrong, nil
	}
	return file, nil, nil
}

// partition brings the GPUs that no pod holds to the configuration of the label, with
// mu held. A node that offers MIG devices only if all GPUs have the same ones (strategy
// single) is partitioned once no pod holds any of them.
func (n *node) partition(file config.MIGFile, wrong error) (state mig.State, why string, again bool) {
	m := &n.mig
	m.waits = false
	if m.label == "" {
		n.drain(nil)
		return "", "", false
	}
	if n.faults.driver { // its end has the label looked at again
		return mig.Pending, "the GPUs cannot be read: the NVIDIA driver does not answer", false
	}
	c, missing, err := mig.Choose(m.label, file.Configs, n.facts(n.spec.GPUs))
	if err != nil {
		n.drain(nil)
		if _, builtin := mig.Builtin(m.label, n.facts(n.spec.GPUs)); wrong != nil && !builtin {
			err = wrong
		}
		return mig.Failed, err.Error(), false
	}
	before := mig.Plan(n.facts(n.spec.GPUs), c)
	if slices.ContainsFunc(before, ready) && m.state != mig.Pending {
		n.drain(mig.Unfinished(before))
		_, why = mig.Judge(before)
		return mig.Pending, why, true
	}
	gpus, steps, err := n.cut(before, c)
	state, why = mig.Judge(steps)
	was, strategy := n.spec.GPUs, n.spec.Sharing
	if strategy.MIGStrategy == "" && slices.ContainsFunc(gpus, func(g gpu.GPU) bool { return g.MIGEnabled }) {
		strategy.MIGStrategy = gpu.MIGMixed
	}
	if err == nil {
		if err = sharing.Check(gpus, strategy); err != nil && state == mig.Pending {
			gpus, strategy, steps, err = was, n.spec.Sharing, before, nil
		}
	}
	if err != nil {
		n.drain(nil)
		return mig.Failed, err.Error() + "; the GPUs are unchanged", false
	}
	n.spec.GPUs = gpus
	m.waits, m.draining = state == mig.Pending, set(mig.Unfinished(steps))
	if err := n.setDevices(strategy); err != nil {
		n.spec.GPUs = was
		n.drain(nil)
		return mig.Failed, err.Error() + "; the GPUs are unchanged", false
	}
	if state == mig.Success {
		why = mig.MissingIndexes(missing)
	}
	return state, why, false
}

func ready(s mig.Step) bool { return s.Action != mig.Nothing && s.Waits == "" }

// cut returns the GPUs with all steps done that can be done now, and what is left to do.
func (n *node) cut(steps []mig.Step, c mig.Config) ([]gpu.GPU, []mig.Step, error) {
	gpus := slices.Clone(n.spec.GPUs)
	for slices.ContainsFunc(steps, ready) {
		for i, s := range steps {
			if !ready(s) {
				continue
			}
			p, ok := gpu.Find(gpus[i].Product)
			switch {
			case !ok:
				return nil, nil, errors.New(gpus[i].Product + " is not a product that Berth knows")
			case s.Action == mig.ModeOff:
				gpus[i].MIGEnabled, gpus[i].MIG = false, nil
			default: // MIG on is without devices
				if err := gpu.Cut(&gpus[i], p, s.Profiles); err != nil {
					return nil, nil, fmt.Errorf("GPU %d: %w", s.Index, err)
				}
			}
		}
		steps = mig.Plan(n.facts(gpus), c)
	}
	return gpus, steps, nil
}

// facts returns what a plan needs to know of GPUs of the node.
func (n *node) facts(gpus []gpu.GPU) []mig.GPU {
	pods := map[string]string{}
	for _, p := range n.pods {
		pods[string(p.api.UID)] = "pod " + p.api.Namespace + "/" + p.api.Name
	}
	held := map[int][]string{}
	for _, h := range n.ledger.Held() {
		held[h.Device.GPU] = append(held[h.Device.GPU], pods[h.Owner])
	}
	out := make([]mig.GPU, len(gpus))
	for i, g := range gpus {
		p, _ := gpu.Find(g.Product)
		out[i] = mig.GPU{GPU: g, Capable: len(p.Profiles) > 0, HeldBy: held[g.Index], Lost: n.faults.xid[g.Index] == lostXid}
	}
	return out
}

// lostXid is the Xid of a GPU that has fallen off the bus.
const lostXid = 79

// drain stops offering exactly these GPUs to new pods.
func (n *node) drain(uuids []string) {
	n.mig.draining = set(uuids)
	if err := n.setDevices(n.spec.Sharing); err != nil {
		n.fleet.log.Warn("GPUs that are to be partitioned are still offered", "node", n.name, "error", err)
	}
}

func set(names []string) map[string]bool {
	out := map[string]bool{}
	for _, name := range names {
		out[name] = true
	}
	return out
}

// drained returns GPUs of which those that are draining are not offered.
func (n *node) drained(gpus []gpu.GPU) []gpu.GPU {
	out := slices.Clone(gpus)
	for i := range out {
		out[i].Healthy = out[i].Healthy && !n.mig.draining[out[i].UUID]
	}
	return out
}

// kept returns a device as it is for the pods that hold it: one that is only draining
// is healthy.
func (n *node) kept(d sharing.Device) sharing.Device {
	for _, g := range n.faults.apply(n.spec.GPUs) {
		if g.Index == d.GPU && n.mig.draining[g.UUID] {
			d.Healthy = g.Healthy
		}
	}
	return d
}

// say reports a state of the configuration by an event, if it is another. What was so when
// the fleet came, or the label, is not news.
func (n *node) say(state mig.State, why string) {
	m := &n.mig
	news := (state != m.state || why != m.why) && (state != mig.Success || m.state != "")
	m.state, m.why, m.ours = state, why, m.ours || state != ""
	warning, reason, message := state.Event(m.label, why)
	if !news || reason == "" {
		return
	}
	kind := v1.EventTypeNormal
	if warning {
		kind = v1.EventTypeWarning
	}
	n.event(kind, reason, message)
}

// stateLabel adds what api.LabelMIGState is to become to a patch of labels.
func (n *node) stateLabel(labels map[string]*string) {
	is, there := n.api.Labels[api.LabelMIGState]
	state := string(n.mig.state)
	switch {
	case !n.mig.ours:
	case state != "" && is != state:
		labels[api.LabelMIGState] = &state
	case state == "" && there:
		labels[api.LabelMIGState] = nil
	case state == "":
		n.mig.ours = false
	}
}
