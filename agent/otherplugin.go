package agent

import (
	"context"
	"sync"

	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/api"
)

// others are the device plugins beside which the agent stands back.
type others struct {
	mu        sync.Mutex
	resources map[string]bool // that they serve
}

// any reports whether there are some.
func (o *others) any() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.resources) > 0
}

// setOtherPlugin acts on another plugin that serves a resource of this node, which detail
// says; "" is that it has gone. While it serves, it chooses the GPUs: so shares of
// them by memory are not offered, and Berth's scheduler is told to commit none.
func (a *agent) setOtherPlugin(resource, detail string) {
	a.others.mu.Lock()
	if a.others.resources == nil {
		a.others.resources = map[string]bool{}
	}
	if detail == "" {
		delete(a.others.resources, resource)
	} else {
		a.others.resources[resource] = true
	}
	a.node.SetOtherPlugin(len(a.others.resources) > 0)
	a.others.mu.Unlock()
	if detail != "" {
		a.nodeEvent("Warning", "ForeignDevicePlugin", detail)
	}
	a.setMPS()
	if a.cluster != nil {
		a.cluster.nudge()
	}
	if m := a.mig.Load(); m != nil {
		m.Freed()
	}
}

// otherPlugin returns which other device plugin serves GPUs of this node; "" is none. It looks
// for itself: at the agent's start nothing has been heard of one that serves, and of a
// resource that the agent does not offer never.
func (a *agent) otherPlugin(ctx context.Context) string {
	const stays = "; the GPUs are not changed, because it can allocate them to pods at any time"
	if a.others.any() {
		return "another device plugin serves GPUs of this node" + stays
	}
	if path := deviceplugin.Serving(ctx, a.o.deviceDir()); path != "" {
		return "another device plugin answers at " + path + stays
	}
	return ""
}

// allocationMode returns how the node gives out devices now: by the kubelet's choice alone
// where another plugin serves it.
func (a *agent) allocationMode() string {
	if a.others.any() {
		return api.AllocationKubelet
	}
	return a.o.Allocation
}
