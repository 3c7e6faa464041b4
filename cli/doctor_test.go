package cli_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/test/golden"
)

// looked is the lab after a scheduler has looked at the pods that wait.
func looked() []runtime.Object {
	objects := lab()
	for _, o := range objects {
		if p, ok := o.(*v1.Pod); ok && p.Spec.NodeName == "" {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
		}
	}
	return objects
}

// served is that lab with NVIDIA's static manifest, whose pods nobody has started.
func served() []runtime.Object {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "nvidia-device-plugin-daemonset"}}
	set.Spec.Template.Labels = map[string]string{"name": "nvidia-device-plugin-ds"}
	set.Spec.Template.Spec.Containers = pod("", "", "", "cpu").Spec.Containers
	set.Spec.Template.Spec.Containers[0].Image = "nvcr.io/nvidia/k8s-device-plugin:v0.14.0"
	set.Status.DesiredNumberScheduled = 5
	return append(looked(), set)
}

func TestDoctorLooksAndChangesNothing(t *testing.T) {
	s := newStage(t, served()...)
	golden.File(t, "doctor.txt", s.ok("doctor"))
	golden.File(t, "doctor.json", s.ok("doctor", "-o", "json"))
	for _, a := range s.client.(*fake.Clientset).Actions() {
		if v := a.GetVerb(); v != "list" && v != "get" {
			t.Errorf("it asks to %s %s", v, a.GetResource().Resource)
		}
	}
}

func TestDoctorExitsWithAFindingOnlyWhereGPUsCannotBeUsed(t *testing.T) {
	gone := node("gpu-1", "Tesla T4", 1, "", "nvidia.com/gpu", 1)
	gone.Status.Allocatable = amounts("nvidia.com/gpu", 0)
	for _, tt := range []struct {
		name    string
		objects []runtime.Object
		args    string
		code    int
		says    string
	}{
		{"warnings are no failure", looked(), "doctor", 0, "0 in the way of GPUs"},
		{"pods that no scheduler looks at are one", lab(), "doctor", 3, "1 pod for scheduler default-scheduler"},
		{"a cluster without GPUs is one", []runtime.Object{node("cpu-1", "", 0, "")}, "doctor", 3, "no node offers GPUs; the cluster has 1 node"},
		{"devices that are gone are one, as JSON too", []runtime.Object{gone}, "doctor -o jsonpath={.items[?(@.status==\"fail\")].name}", 3, "devices"},
		{"what is no command is bad usage", nil, "doctor nod", 2, `did you mean "node"?`},
		{"findings have no names", nil, "doctor -o name", 2, "not supported for findings"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, code := newStage(t, tt.objects...).run(append([]string{"berth"}, strings.Split(tt.args, " ")...)...)
			if code != tt.code || !strings.Contains(stdout+stderr, tt.says) {
				t.Errorf("berth %s: exit code %d, want %d and %q; got\n%s%s", tt.args, code, tt.code, tt.says, stdout, stderr)
			}
		})
	}
}

func TestDoctorSaysWhatItMayNotSee(t *testing.T) {
	s := newStage(t, served()...)
	client := s.client.(*fake.Clientset)
	client.PrependReactor("list", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "daemonsets"}, "", nil)
	})
	client.Resources = []*metav1.APIResourceList{{GroupVersion: "nvidia.com/v1", APIResources: []metav1.APIResource{{Name: "clusterpolicies", Kind: "ClusterPolicy"}}}}
	got := s.ok("doctor")
	for _, says := range []string{"daemonsets cannot be listed (forbidden)", "who serves the GPUs is not known", "it is here, and none of its parts is seen"} {
		if !strings.Contains(got, says) {
			t.Errorf("it does not say %q:\n%s", says, got)
		}
	}
}

func TestDoctorNeedsNodesAndPods(t *testing.T) {
	s := newStage(t, lab()...)
	s.client.(*fake.Clientset).PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	})
	_, stderr, code := s.run("berth", "doctor")
	if code != 1 || !strings.Contains(stderr, "list pods on https://cluster.test:6443") || !strings.Contains(stderr, "or use --as") {
		t.Errorf("exit code %d, want 1; it says %s", code, stderr)
	}
}
