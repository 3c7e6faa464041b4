package kubelettest

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// restarting is a plugin that has the kubelet start again while it is asked for a
// preference, and answers all the same.
type restarting struct {
	v1beta1.DevicePluginClient
	restart func() error
}

func (r restarting) GetPreferredAllocation(_ context.Context, q *v1beta1.PreferredAllocationRequest, _ ...grpc.CallOption) (*v1beta1.PreferredAllocationResponse, error) {
	one := q.ContainerRequests[0]
	return &v1beta1.PreferredAllocationResponse{ContainerResponses: []*v1beta1.ContainerPreferredAllocationResponse{
		{DeviceIDs: one.AvailableDeviceIDs[:one.AllocationSize]},
	}}, r.restart()
}

// TestARestartWhileDevicesAreChosen ends an admission with an error: the kubelet that
// began it is no more, and the one after it knows nothing of what it took.
func TestARestartWhileDevicesAreChosen(t *testing.T) {
	k := New(t.TempDir(), 1)
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	const gpus = "nvidia.com/gpu"
	k.mu.Lock()
	k.healthy[gpus] = setOf([]string{"a", "b"})
	k.ends[gpus] = &endpoint{api: restarting{restart: k.Restart}, options: &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true}}
	k.mu.Unlock()
	err := k.Admit(t.Context(), Pod{UID: "p", Containers: []Container{{Name: "c", Limits: map[string]int{gpus: 1}}}})
	if err == nil || !strings.Contains(err.Error(), errEnded.Error()) {
		t.Errorf("Admit = %v, want an error that says %q", err, errEnded)
	}
	if held := k.Held(); len(held) > 0 {
		t.Errorf("after the restart %v is held", held)
	}
}
