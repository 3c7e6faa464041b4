package devices_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/view"
)

func TestWhatAnAgentHasGivenReadsBack(t *testing.T) {
	want := commit.Observed{"uid-1": {
		"main":    {{UUID: "GPU-a", MilliGPU: 1000, MemoryBytes: 80 << 30}},
		"sidecar": {{UUID: "MIG-b", MilliGPU: 142, MemoryBytes: 10 << 30}, {UUID: "MIG-c", MilliGPU: 142, MemoryBytes: 10 << 30}},
	}}
	note, err := commit.ObservedNote(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := commit.ObservedOn(kubetest.Publishing(map[string]string{api.AnnotationObserved: note}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ObservedOn(ObservedNote(x)) differs from x (-want +got):\n%s", diff)
	}
}

func TestANodeWithoutAnAgentHasSaidNothing(t *testing.T) {
	if got, err := commit.ObservedOn(&v1.Node{}); got != nil || err != nil {
		t.Errorf("ObservedOn of a node without the annotation = %v, %v; want nothing", got, err)
	}
	_, err := commit.ObservedOn(kubetest.Publishing(map[string]string{api.AnnotationObserved: "{"}))
	if err == nil || !strings.Contains(err.Error(), api.AnnotationObserved) {
		t.Errorf("ObservedOn of half an annotation = %v; want an error that names it", err)
	}
}

func TestDevicesOfAPodWithoutACommitmentAreThoseTheAgentTells(t *testing.T) {
	gpus := []sharing.Named{{UUID: "GPU-1", MilliGPU: 1000, MemoryBytes: 16 << 30}}
	for _, c := range []struct {
		name string
		pod  *v1.Pod
		told commit.Observed
		want string // UUID of the one holder
	}{
		{"the agent's word stands for a token of the kubelet's", kubetest.Reported(kubetest.Asking("p", "gpu=1"), api.ResourceGPU, "gpu-0"), commit.Observed{"uid-p": {"main": gpus}}, "GPU-1"},
		{"a token alone tells of no device", kubetest.Reported(kubetest.Asking("p", "gpu=1"), api.ResourceGPU, "gpu-0"), nil, devices.UnknownUUID},
		{"a UUID that the kubelet reports is a device", kubetest.Reported(kubetest.Asking("p", "gpu=1"), api.ResourceGPU, "GPU-0"), nil, "GPU-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			notes := map[string]string{api.AnnotationInventory: `[{"index":0,"uuid":"GPU-0","product":"Tesla T4","memoryBytes":17179869184,"healthy":true},{"index":1,"uuid":"GPU-1","product":"Tesla T4","memoryBytes":17179869184,"healthy":true}]`}
			if c.told != nil {
				note, err := commit.ObservedNote(c.told)
				if err != nil {
					t.Fatal(err)
				}
				notes[api.AnnotationObserved] = note
			}
			node := kubetest.Publishing(notes)
			c.pod.UID, c.pod.Spec.NodeName, c.pod.Status.Phase = "uid-p", node.Name, v1.PodRunning
			view := view.Cluster([]*v1.Node{node}, []*v1.Pod{c.pod})
			var got []string
			for _, g := range view.Nodes[0].GPUs {
				for _, h := range g.Holders {
					got = append(got, h.UUID)
				}
			}
			for _, h := range view.Nodes[0].Unplaced {
				got = append(got, h.UUID)
			}
			if diff := cmp.Diff([]string{c.want}, got); diff != "" {
				t.Errorf("holders differ (-want +got):\n%s", diff)
			}
		})
	}
}
