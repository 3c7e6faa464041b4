package devices_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/view"
)

func TestWhoHoldsGPUsAndCannotRun(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		reason string // for which the container waits
		edit   func(*v1.Pod)
		want   string // "" is that it is not stuck
		holder string // what is said of the holder
	}{
		{
			"an image whose tag lacks its ending", "ImagePullBackOff", nil,
			"container training: cannot pull image pytorch/pytorch:2.0.0-cuda11.8-cudnn8; tags of pytorch/pytorch end in -runtime or -devel, and 2.0.0-cuda11.8-cudnn8 does not (by its form; unverified)", "cannot pull image",
		},
		{"of another image nothing is known", "ErrImagePull", func(p *v1.Pod) { p.Spec.Containers[0].Image = "x/y:1" }, "container training: cannot pull image x/y:1", "cannot pull image"},
		{"an init container goes before", "ErrImagePull", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "fetch", Image: "x/fetch:1"}}
			p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "fetch", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
		}, "container fetch: CrashLoopBackOff", "crashes again and again"},
		{"a container that cannot be made", "CreateContainerConfigError", nil, "container training: CreateContainerConfigError", "cannot be made"},
		{"one that is being made is not stuck", "ContainerCreating", nil, "", ""},
		{"nor one that goes already", "ErrImagePull", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: began} }, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p", UID: "u"}}
			p.Spec = v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "training", Image: "pytorch/pytorch:2.0.0-cuda11.8-cudnn8", Resources: v1.ResourceRequirements{
				Limits: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")},
			}}}}
			p.Status.StartTime = &metav1.Time{Time: began}
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "training", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: tt.reason}}}}
			if tt.edit != nil {
				tt.edit(p)
			}
			why, since, ok := devices.Stuck(p)
			if why != tt.want || ok != (tt.want != "") || ok && !since.Equal(began) {
				t.Errorf("Stuck = %q since %v, %v\nwant %q", why, since, ok, tt.want)
			}
			n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Capacity: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}}}
			v := view.Cluster([]*v1.Node{n}, []*v1.Pod{p})
			held := 0
			for _, g := range v.Nodes[0].GPUs {
				for _, h := range g.Holders {
					if held++; h.Stuck != tt.holder {
						t.Errorf("the holder is %q, want %q", h.Stuck, tt.holder)
					}
				}
			}
			if held != 2 {
				t.Errorf("%d GPUs are held, want 2", held)
			}
		})
	}
}
