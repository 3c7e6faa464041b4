package request_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

func TestSimple(t *testing.T) {
	gpus := func(asks ...sharing.Ask) []sharing.Part { return []sharing.Part{{Name: "main", Asks: asks}} }
	one := sharing.Ask{Resource: api.ResourceGPU, Count: 1}
	for _, tt := range []struct {
		name  string
		pod   v1.PodSpec
		parts []sharing.Part
		want  bool
	}{
		{"a pod without GPUs", v1.PodSpec{}, nil, true},
		{"GPUs", v1.PodSpec{}, gpus(one), true},
		{"GPUs of several containers", v1.PodSpec{}, append(gpus(one), gpus(one)...), true},
		{"GPUs and MIG devices", v1.PodSpec{}, gpus(one, sharing.Ask{Resource: "nvidia.com/mig-1g.10gb", Count: 1}), false},
		{"one share by memory", v1.PodSpec{}, gpus(sharing.Ask{Resource: api.ResourceGPUMemory, Count: 8}), true},
		{"two shares by memory", v1.PodSpec{}, append(gpus(sharing.Ask{Resource: api.ResourceGPUMemory, Count: 8}), gpus(sharing.Ask{Resource: api.ResourceGPUMemory, Count: 8})...), false},
		{"a share by compute and memory", v1.PodSpec{}, gpus(sharing.Ask{Resource: api.ResourceGPU, Count: 1, Share: sharing.ShareSize{MilliGPU: 500, MemoryMiB: 1024}}), false},
		{"replicas of a GPU", v1.PodSpec{}, gpus(sharing.Ask{Resource: api.ResourceGPUShared, Count: 1}), true},
		{"replicas of a MIG device", v1.PodSpec{}, gpus(sharing.Ask{Resource: "nvidia.com/mig-1g.10gb.shared", Count: 1}), false},
		{"a GPU with a least memory", v1.PodSpec{}, gpus(sharing.Ask{Resource: api.ResourceGPU, Count: 2, LeastGiB: 40}), true},
		{"two of them in two containers", v1.PodSpec{}, append(gpus(sharing.Ask{Resource: api.ResourceGPU, Count: 1, LeastGiB: 40}), gpus(sharing.Ask{Resource: api.ResourceGPU, Count: 1, LeastGiB: 40})...), false},
		{"node affinity", v1.PodSpec{Affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}}}, gpus(one), true},
		{"pod affinity", v1.PodSpec{Affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{}}}, gpus(one), false},
		{"a topology spread constraint", v1.PodSpec{TopologySpreadConstraints: make([]v1.TopologySpreadConstraint, 1)}, gpus(one), false},
		{"a resource claim", v1.PodSpec{ResourceClaims: make([]v1.PodResourceClaim, 1)}, gpus(one), false},
		{"a configuration as a volume", v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}}}, gpus(one), true},
		{"a volume claim", v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}}}, gpus(one), false},
		{"a port of a container", v1.PodSpec{Containers: []v1.Container{{Ports: []v1.ContainerPort{{ContainerPort: 80}}}}}, gpus(one), true},
		{"a port of its node", v1.PodSpec{InitContainers: []v1.Container{{Ports: []v1.ContainerPort{{HostPort: 80}}}}}, gpus(one), false},
	} {
		if got := request.Simple(&v1.Pod{Spec: tt.pod}, tt.parts); got != tt.want {
			t.Errorf("%s: simple %v, want %v", tt.name, got, tt.want)
		}
	}
}
