package record_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/record"
	"berth.dev/berth/kube/request"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// aPod has what a record keeps, and what it does not.
func aPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "vision", Name: "a", UID: "uid-a", Labels: map[string]string{"team": "red"},
			Annotations:   map[string]string{"berth.dev/user": "ann", v1.LastAppliedConfigAnnotation: "{}"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: v1.PodSpec{
			NodeName: "n", Volumes: []v1.Volume{{Name: "home"}},
			Containers: []v1.Container{{
				Name: "main", Image: "example.com/train:1", Env: []v1.EnvVar{{Name: "PASSWORD", Value: "secret"}},
				Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}},
			}},
		},
		Status: v1.PodStatus{
			Phase: v1.PodSucceeded, PodIP: "10.0.0.1",
			Conditions:        []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}},
			ContainerStatuses: []v1.ContainerStatus{{Name: "main", ImageID: "sha256:1", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.NewTime(noon)}}}},
		},
	}
}

func TestWhatARecordKeepsOfAPod(t *testing.T) {
	line, err := record.Write(record.Gone{At: noon, Pod: record.Slim(aPod())})
	if err != nil {
		t.Fatal(err)
	}
	broken := []byte("{\"at\":\"2026-11-28T1\n{}\n\n{\"at\":\"2026-11-28T12:00:00Z\"}\n")
	gone, now := record.Read(slices.Concat(record.WriteNow(noon.Add(time.Hour)), line, broken, line))
	if len(gone) != 2 || !now.Equal(noon.Add(time.Hour)) || !gone[1].At.Equal(noon) {
		t.Fatalf("read are %d pods, of %v, at %v on the node", len(gone), gone, now)
	}
	is, was := gone[1].Pod, aPod()
	if !request.BoundAt(is).Equal(request.BoundAt(was)) || request.Of(is)["nvidia.com/gpu"] != 2 || is.Annotations["berth.dev/user"] != "ann" || is.Labels["team"] != "red" ||
		is.Status.ContainerStatuses[0].State.Terminated == nil || is.Spec.NodeName != "n" {
		t.Errorf("kept is %+v", is)
	}
	c := is.Spec.Containers[0]
	if len(is.Annotations) != 1 || is.ManagedFields != nil || is.Spec.Volumes != nil || c.Image != "" || c.Env != nil || is.Status.PodIP != "" || is.Status.ContainerStatuses[0].ImageID != "" {
		t.Errorf("kept is also %+v", is)
	}
}
