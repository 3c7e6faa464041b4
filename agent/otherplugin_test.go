package agent

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/allocation"
	"berth.dev/berth/api"
)

// noPods is a node without pods.
type noPods struct{}

func (noPods) Pod(context.Context, string, bool) (*v1.Pod, error) { return nil, nil }
func (noPods) Pods(context.Context, bool) ([]*v1.Pod, error)      { return nil, nil }
func (noPods) Changed() <-chan struct{}                           { return nil }

func TestAnotherPluginOfAnyResourceHasTheKubeletChoose(t *testing.T) {
	node, err := allocation.New(t.Context(), allocation.Options{CDIDir: t.TempDir(), DeviceDir: t.TempDir(), Pods: noPods{}})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	a := &agent{o: Options{Allocation: api.AllocationCommitted}, node: node}
	for _, c := range []struct{ resource, detail, want string }{
		{"", "", api.AllocationCommitted},
		{"nvidia.com/gpu", "another", api.AllocationKubelet},
		{"nvidia.com/mig-1g.10gb", "another", api.AllocationKubelet},
		{"nvidia.com/gpu", "", api.AllocationKubelet},
		{"nvidia.com/gpu", "", api.AllocationKubelet},
		{"nvidia.com/mig-1g.10gb", "", api.AllocationCommitted},
		{"nvidia.com/gpu", "another again", api.AllocationKubelet},
	} {
		if c.resource != "" {
			a.setOtherPlugin(c.resource, c.detail)
		}
		if got := a.allocationMode(); got != c.want {
			t.Errorf("after %q of %s the node gives out devices as %s, want %s", c.detail, c.resource, got, c.want)
		}
	}
}
