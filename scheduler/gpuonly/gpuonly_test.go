package gpuonly_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/scheduler/gpuonly"
)

// handle is what the plugin uses of a scheduler: one node, and a recorder.
type handle struct {
	fwk.Handle
	fwk.SharedLister
	fwk.NodeInfoLister
	info     info
	recorder *events.FakeRecorder
}

type info struct {
	fwk.NodeInfo
	node *v1.Node
}

func (i info) Node() *v1.Node                               { return i.node }
func (h *handle) SnapshotSharedLister() fwk.SharedLister    { return h }
func (h *handle) NodeInfos() fwk.NodeInfoLister             { return h }
func (h *handle) Get(string) (fwk.NodeInfo, error)          { return h.info, nil }
func (h *handle) EventRecorder() events.EventRecorderLogger { return h.recorder }

func quantities(name string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceName(name): resource.MustParse("1")}
}

func pod(change func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	change(p)
	return p
}

func TestStrays(t *testing.T) {
	asks := func(name string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = quantities(name) }
	}
	for _, tt := range []struct {
		name, mode string
		capacity   string // of the node
		pod        func(*v1.Pod)
		fits, told bool
	}{
		{"open lets it in", gpuonly.Open, "nvidia.com/gpu", asks("cpu"), true, false},
		{"report lets it in and tells", gpuonly.Report, "nvidia.com/gpu", asks("cpu"), true, true},
		{"refuse keeps it off", gpuonly.Refuse, "nvidia.com/gpu", asks("cpu"), false, false},
		{"a node of MIG devices is a GPU node", gpuonly.Refuse, "nvidia.com/mig-1g.5gb", asks("cpu"), false, false},
		{"other nodes take it", gpuonly.Refuse, "cpu", asks("cpu"), true, false},
		{"a pod that asks for a GPU belongs there", gpuonly.Refuse, "nvidia.com/gpu", asks("nvidia.com/gpu"), true, false},
		{"one that asks for a share belongs there", gpuonly.Report, "nvidia.com/gpu", func(p *v1.Pod) { p.Annotations = map[string]string{"gpu-fraction": "0.5"} }, true, false},
		{"a DaemonSet's pod belongs to every node", gpuonly.Refuse, "nvidia.com/gpu", func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
		}, true, false},
		{"the cluster's own machinery may run anywhere", gpuonly.Refuse, "nvidia.com/gpu", func(p *v1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" }, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &handle{recorder: events.NewFakeRecorder(1)}
			h.info.node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Capacity: quantities(tt.capacity)}}
			plugin, err := gpuonly.New(t.Context(), &runtime.Unknown{Raw: []byte(`{"mode":"` + tt.mode + `"}`)}, h)
			if err != nil {
				t.Fatal(err)
			}
			p := pod(tt.pod)
			if got := plugin.(fwk.FilterPlugin).Filter(t.Context(), nil, p, h.info).IsSuccess(); got != tt.fits {
				t.Errorf("Filter: fits is %v", got)
			}
			plugin.(fwk.PostBindPlugin).PostBind(t.Context(), nil, p, "n")
			if got := len(h.recorder.Events) == 1; got != tt.told {
				t.Errorf("PostBind: told is %v", got)
			}
		})
	}
}

func TestArgumentsThatCannotBeMeantAreRefused(t *testing.T) {
	for _, args := range []string{`{"mode":"closed"}`, `{"mode":1}`, `{}`} {
		if _, err := gpuonly.New(t.Context(), &runtime.Unknown{Raw: []byte(args)}, nil); err == nil {
			t.Errorf("%s is no error", args)
		}
	}
	if _, err := gpuonly.New(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
}
