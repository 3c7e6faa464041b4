// Package gpuonly is a kube-scheduler plugin for GPU nodes that are for GPU work: a
// pod that asks for no GPU is kept off them, or told of. A taint keeps off only
// pods that do not tolerate it, and templates are copied with their tolerations.
// Which pods and nodes are meant is decided by package kube/request.
package gpuonly

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// Name is the plugin's name in the scheduler's configuration.
const Name = "BerthStrays"

// The modes: what is done about a pod without GPUs on a GPU node.
const (
	Open   = "open"   // nothing
	Report = "report" // it gets an event when it is bound there
	Refuse = "refuse" // it is not bound there
)

// Modes lists the modes.
func Modes() []string { return []string{Open, Report, Refuse} }

// refusal is the reason of the nodes that are refused, as the scheduler counts it.
const refusal = "node(s) were for pods that ask for GPUs"

// plugin is the plugin in one profile.
type plugin struct {
	mode   string
	handle fwk.Handle
}

var (
	_ fwk.FilterPlugin   = &plugin{}
	_ fwk.PostBindPlugin = &plugin{}
	_ fwk.SignPlugin     = &plugin{}
)

// New makes the plugin for one profile, whose arguments are {mode: MODE}. Without
// any, the mode is Open.
func New(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	p := &plugin{mode: Open, handle: h}
	raw, ok := args.(*runtime.Unknown)
	if !ok || len(raw.Raw) == 0 {
		return p, nil
	}
	var read struct{ Mode string }
	if err := json.Unmarshal(raw.Raw, &read); err != nil {
		return nil, fmt.Errorf("arguments of plugin %s: %w", Name, err)
	}
	if !slices.Contains(Modes(), read.Mode) {
		return nil, fmt.Errorf("arguments of plugin %s: mode %q: it is %s", Name, read.Mode, strings.Join(Modes(), ", "))
	}
	p.mode = read.Mode
	return p, nil
}

// Name implements fwk.Plugin.
func (p *plugin) Name() string { return Name }

// Filter refuses GPU nodes to pods that have no business there.
func (p *plugin) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if p.mode == Refuse && devices.GPUNode(info.Node()) && request.Stray(pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, refusal)
	}
	return nil
}

// PostBind tells of a pod that was bound to a GPU node and has no business there.
func (p *plugin) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, nodeName string) {
	if p.mode != Report || !request.Stray(pod) {
		return
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil || !devices.GPUNode(info.Node()) {
		return
	}
	p.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, "NoGPUAsked", "Binding",
		"this pod asks for no GPU and takes CPU and memory of GPU node %s: keep it off with a node selector or affinity, or take its toleration away", nodeName)
}

// SignPod implements fwk.SignPlugin: what matters is whether a pod is a stray.
func (p *plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: Name, Value: request.Stray(pod)}}, nil
}
