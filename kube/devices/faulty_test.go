package devices_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/devices"
)

// TestFaultyOf holds which faulty GPU a pod has, read from what is kept of its node.
func TestFaultyOf(t *testing.T) {
	const inventory = `[{"index":0,"uuid":"GPU-0","healthy":true,"xid":31},{"index":1,"uuid":"GPU-1","healthy":false},` +
		`{"index":2,"uuid":"GPU-2","healthy":false,"xid":79},{"index":3,"uuid":"GPU-3","healthy":false,"xid":48,"mig":[{"uuid":"MIG-a"},{"uuid":"MIG-b"}]}]`
	committed := func(uuid string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationDevices: `{"c":[{"uuid":"` + uuid + `","milliGPU":1000,"memoryBytes":1}]}`}}}
	}
	reported := func(id string, health v1.ResourceHealthStatus) *v1.Pod {
		p := &v1.Pod{}
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", AllocatedResourcesStatus: []v1.ResourceStatus{{
			Name: api.ResourceGPU, Resources: []v1.ResourceHealth{{ResourceID: v1.ResourceID(id), Health: health}},
		}}}}
		return p
	}
	for _, tt := range []struct {
		name string
		pod  *v1.Pod
		want string
	}{
		{"a committed GPU with an Xid", committed("GPU-2"), "GPU-2"},
		{"a part of one", committed("MIG-b"), "GPU-3"},
		{"a GPU whose Xid is harmless", committed("GPU-0"), ""},
		{"a GPU that is unhealthy without an Xid, as while the driver is upgraded", committed("GPU-1"), ""},
		{"a GPU that the kubelet chose and reports as unhealthy", reported("GPU-2", v1.ResourceHealthStatusUnhealthy), "GPU-2"},
		{"a share of one", reported("GPU-2::3", v1.ResourceHealthStatusUnhealthy), "GPU-2"},
		{"one that the kubelet reports as healthy, as the inventory is old", reported("GPU-2", v1.ResourceHealthStatusHealthy), ""},
		{"a pod without GPUs", &v1.Pod{}, ""},
	} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationInventory: inventory, "other": "x"}}}
		devices.KeepFaulty(n)
		got := ""
		if g := devices.FaultyOf(tt.pod, devices.Faulty(n)); g != nil {
			got = g.UUID
		}
		if got != tt.want || len(n.Annotations) != 1 {
			t.Errorf("%s: %q, want %q; kept are %v", tt.name, got, tt.want, n.Annotations)
		}
	}
	for _, text := range []string{`[{"index":0,"uuid":"GPU-0","healthy":true}]`, "[", ""} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationInventory: text}}}
		if devices.KeepFaulty(n); len(n.Annotations) > 0 {
			t.Errorf("of the inventory %q is kept %v", text, n.Annotations)
		}
	}
}
