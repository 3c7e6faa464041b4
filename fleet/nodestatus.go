package fleet

import (
	"encoding/json"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/fleet/spec"
)

// statusPatch returns the strategic merge patch that brings the node's status
// up to date, nil if it is, and when to look again.
func (n *node) statusPatch(now time.Time) ([]byte, time.Time, error) {
	conditions := n.conditions(now)
	patch := map[string]any{}
	if conditions != nil {
		patch["conditions"] = conditions
	}
	if n.broken() {
		data, err := statusJSON(patch)
		return data, time.Time{}, err
	}
	capacity, allocatable, err := spec.Resources(n.now())
	if err != nil {
		return nil, time.Time{}, err
	}
	runs, next := n.pluginRuns(now)
	if !runs {
		for name := range allocatable {
			if strings.HasPrefix(string(name), devicePrefix) {
				allocatable[name] = resource.Quantity{}
			}
		}
	}
	if c := changed(n.api.Status.Capacity, capacity); c != nil {
		patch["capacity"] = c
	}
	if c := changed(n.api.Status.Allocatable, allocatable); c != nil {
		patch["allocatable"] = c
	}
	data, err := statusJSON(patch)
	return data, next, err
}

func statusJSON(patch map[string]any) ([]byte, error) {
	if len(patch) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"status": patch})
}

// changed returns the resources that differ from old. One that is no longer
// offered stays with 0, as a kubelet leaves it.
func changed(old, now v1.ResourceList) v1.ResourceList {
	var out v1.ResourceList
	set := func(name v1.ResourceName, q resource.Quantity) {
		if out == nil {
			out = v1.ResourceList{}
		}
		out[name] = q
	}
	for name, q := range now {
		if had, ok := old[name]; !ok || had.Cmp(q) != 0 {
			set(name, q)
		}
	}
	for name, q := range old {
		if _, ok := now[name]; !ok && strings.HasPrefix(string(name), devicePrefix) && !q.IsZero() {
			set(name, resource.Quantity{})
		}
	}
	return out
}

// conditions returns the conditions to write, nil if they are right. Those of a
// broken kubelet are what the node lifecycle controller writes when its grace
// period is over; the fleet does not make a person wait for it.
func (n *node) conditions(now time.Time) []v1.NodeCondition {
	want := v1.ConditionTrue
	if n.broken() {
		want = v1.ConditionUnknown
	}
	for _, c := range n.api.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status == want {
			return nil
		}
	}
	out := spec.Conditions(now)
	if !n.broken() {
		return out
	}
	for i := range out {
		out[i].Status, out[i].Reason, out[i].Message = v1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	return out
}
