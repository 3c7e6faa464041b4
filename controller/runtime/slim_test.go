package runtime

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func TestWhatIsKeptOfContainers(t *testing.T) {
	ended := func(id string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3, Message: "why", ContainerID: id}}
	}
	held := []v1.ResourceStatus{{Name: "nvidia.com/gpu"}}
	got := SlimContainers([]v1.ContainerStatus{{
		Name: "c", State: ended("x"), LastTerminationState: ended("y"), Ready: true, RestartCount: 2, Image: "i", ImageID: "j", ContainerID: "k", Started: new(true), AllocatedResourcesStatus: held,
	}})
	want := []v1.ContainerStatus{{Name: "c", State: ended(""), LastTerminationState: ended(""), Ready: true, RestartCount: 2, AllocatedResourcesStatus: held}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWhichConditionsAreKept(t *testing.T) {
	list := []v1.PodCondition{{Type: v1.PodScheduled}, {Type: v1.ContainersReady}, {Type: v1.PodReady, Reason: "r"}}
	if diff := cmp.Diff([]v1.PodCondition{{Type: v1.PodReady, Reason: "r"}}, SlimConditions(list, v1.PodReady, v1.DisruptionTarget)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := SlimConditions(list, v1.DisruptionTarget); got != nil {
		t.Errorf("of none there are %v", got)
	}
}
