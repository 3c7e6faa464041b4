package spawn_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/profile"
	"berth.dev/berth/kube/spawn"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func gpus(n int64) v1.ResourceList {
	return v1.ResourceList{api.ResourceGPU: *resource.NewQuantity(n, resource.DecimalSI), "cpu": resource.MustParse("8"), "pods": resource.MustParse("100")}
}

// fine is a start at which all holds.
func fine() *spawn.Facts {
	home := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "hub", Name: "claim-ada"}}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "hub", Name: "jupyter-ada-0"}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "notebook", Image: "x/y:1", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{api.ResourceGPU: resource.MustParse("1")}}}},
		Volumes:    []v1.Volume{{Name: "home", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim-ada"}}}},
	}}
	return &spawn.Facts{
		User: "ada", Space: "hub", Found: &v1.Namespace{}, Served: true, Mode: "own", Profile: "t4",
		Object: &kubeflow.Notebook{ObjectMeta: metav1.ObjectMeta{Namespace: "hub", Name: "jupyter-ada"}}, Pod: pod, Home: home, UserMay: true,
		Classes: []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "standard", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}}},
		Nodes: []*v1.Node{{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"nvidia.com/gpu.count": "2", "nvidia.com/cuda.runtime.major": "12", "nvidia.com/cuda.runtime.minor": "2"}},
			Status:     v1.NodeStatus{Capacity: gpus(2), Allocatable: gpus(2), Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
		}},
		Now: now,
	}
}

func holder(n int64) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "holder", UID: "h"}, Spec: v1.PodSpec{
		NodeName: "n1", Containers: []v1.Container{{Name: "c", Image: "bad:1", Resources: v1.ResourceRequirements{Limits: gpus(n), Requests: v1.ResourceList{api.ResourceGPU: gpus(n)[api.ResourceGPU]}}}},
	}, Status: v1.PodStatus{Phase: v1.PodRunning}}
}

func TestNothingIsBroken(t *testing.T) {
	found := spawn.Judge(fine())
	var names []string
	for _, one := range found {
		names = append(names, one.Name)
		if one.Status != finding.OK || one.Do != "" {
			t.Errorf("%+v, want it to be ok", one)
		}
	}
	want := []string{"namespace", "controller", "profile", "rights", "notebook", "volumes", "quota", "admission", "image", "nodes", "GPUs"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if first := spawn.First(found); first != "" {
		t.Errorf("First = %q, want none", first)
	}
}

func TestEachBrokenLinkIsNamed(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*spawn.Facts)
		link string // that is not ok
		want finding.Status
		seen string
	}{
		{"no namespace", func(f *spawn.Facts) { f.Found = nil }, spawn.Namespace, finding.Fail, "there is no namespace hub"},
		{"a namespace that goes", func(f *spawn.Facts) { f.Found.DeletionTimestamp = &metav1.Time{Time: now} }, spawn.Namespace, finding.Fail, "namespace hub is being deleted"},
		{"no such kind", func(f *spawn.Facts) { f.Served = false }, spawn.Controller, finding.Fail, "the API server knows no Notebooks"},
		{"a controller that is off", func(f *spawn.Facts) { f.Mode = "off" }, spawn.Controller, finding.Fail, "Berth's controllers leave notebooks alone (mode off)"},
		{"a controller that is gone", func(f *spawn.Facts) {
			seconds := int32(15)
			f.Lease = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: now.Add(-time.Minute)}, LeaseDurationSeconds: &seconds}}
		}, spawn.Controller, finding.Fail, "Berth's controllers have not renewed their lease for 1m0s"},
		{"a profile that does not render", func(f *spawn.Facts) { f.Wrong, f.Object = errors.New("no profile"), nil }, spawn.Profile, finding.Fail, "no profile"},
		{"a profile with a doubt", func(f *spawn.Facts) { f.Warnings = []profile.Warning{{Key: "k", Text: "x"}} }, spawn.Profile, finding.Warn, "t4 renders as notebook jupyter-ada; k: x"},
		{"no right", func(f *spawn.Facts) { f.UserMay = false }, spawn.Rights, finding.Fail, "neither ada nor you may make notebooks in hub"},
		{"a right of somebody else", func(f *spawn.Facts) { f.UserMay, f.AskerMay = false, true }, spawn.Rights, finding.Warn, "ada may make no notebooks in hub; you may, for ada"},
		{"a notebook that runs", func(f *spawn.Facts) { f.Existing = "Ready on n1" }, spawn.Notebook, finding.Warn, "jupyter-ada is there already: Ready on n1"},
		{"a notebook in trouble", func(f *spawn.Facts) { f.Existing, f.Trouble = "Crashing: x", true }, spawn.Notebook, finding.Fail, "jupyter-ada is there: Crashing: x"},
		{"no default storage class", func(f *spawn.Facts) { f.Classes = nil }, spawn.Volumes, finding.Fail, "volume claim claim-ada is to be made, and there is no storage class (the default)"},
		{"a claim that nobody makes", func(f *spawn.Facts) { f.Home = nil }, spawn.Volumes, finding.Fail, "volume claim claim-ada does not exist in namespace hub"},
		{"a claim without a volume", func(f *spawn.Facts) {
			f.Home.Status.Phase = v1.ClaimPending
			f.Claims = []*v1.PersistentVolumeClaim{f.Home}
		}, spawn.Volumes, finding.Fail, "volume claim claim-ada has no volume yet"},
		{"a full quota", func(f *spawn.Facts) {
			hard := v1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("1")}
			f.Quotas = []v1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Status: v1.ResourceQuotaStatus{Hard: hard, Used: hard}}}
		}, spawn.Quota, finding.Fail, "quota q allows 1 of requests.nvidia.com/gpu, 1 are used, and it would take 1 more"},
		{
			"Pod Security", func(f *spawn.Facts) { f.Refusal = `pods "a" is forbidden: violates PodSecurity "restricted:latest": x` }, spawn.Admission, finding.Fail,
			"namespace hub takes only pods of Pod Security level restricted, and this pod does not meet it: x; change that, or ask for a namespace of another level",
		},
		{
			"an image without a version", func(f *spawn.Facts) { f.Pod.Spec.Containers[0].Image = "x/y:latest" }, spawn.Image, finding.Warn,
			"image x/y:latest is whatever is newest when it starts; name a version instead of latest",
		},
		{
			"an image for a newer driver", func(f *spawn.Facts) { f.Pod.Spec.Containers[0].Image = "x/y:cuda13.0" }, spawn.Image, finding.Fail,
			"image x/y:cuda13.0 needs CUDA 13.0 (says its tag), and the newest driver of the nodes that it may use gives 12.2; choose an image for CUDA 12.2 or older, or update the driver",
		},
		{"an image that somebody cannot pull", func(f *spawn.Facts) {
			p := holder(1)
			p.Spec.Containers[0].Image = "x/y:1"
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
			f.Pods = []*v1.Pod{p}
		}, spawn.Image, finding.Fail, "image x/y:1 cannot be pulled by pod x/holder, which has it too: ErrImagePull: not found"},
		{"a label that no node has", func(f *spawn.Facts) { f.Pod.Spec.NodeSelector = map[string]string{"a": "b"} }, spawn.Nodes, finding.Fail, "no node has the label a=b; change nodeSelector, or label a node"},
		{"GPUs that others hold", func(f *spawn.Facts) { f.Pods = []*v1.Pod{holder(2)} }, spawn.GPUs, finding.Warn, "no node has 1 nvidia.com/gpu free: it would wait"},
		{"what may not be read", func(f *spawn.Facts) { f.Unread = map[string]string{spawn.Quota: "you may not"} }, spawn.Quota, finding.Warn, "not looked at: you may not"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fine()
			tt.edit(f)
			for _, one := range spawn.Judge(f) {
				if one.Name != tt.link {
					continue
				}
				if one.Status != tt.want || one.Seen != tt.seen || one.Do == "" {
					t.Errorf("%+v, want %s %q, and what to do", one, tt.want, tt.seen)
				}
				return
			}
			t.Errorf("nothing is said of %s", tt.link)
		})
	}
}

func TestBeyondABrokenNamespaceNothingIsSaid(t *testing.T) {
	f := &spawn.Facts{User: "ada", Space: "hub"}
	if found := spawn.Judge(f); len(found) != 1 || spawn.First(found) != spawn.Namespace {
		t.Errorf("findings %+v, want the namespace alone", found)
	}
}
