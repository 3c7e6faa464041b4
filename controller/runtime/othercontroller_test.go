package runtime

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deployment makes one with an image and, if not "", a label app; replicas below 0
// are not said.
func deployment(namespace, name, image, app string, replicas int32) appsv1.Deployment {
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if app != "" {
		d.Labels = map[string]string{"app": app}
	}
	if replicas >= 0 {
		d.Spec.Replicas = &replicas
	}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "busybox"}, {Image: image}}
	return d
}

// upstream is the name of Kubeflow's controller of notebooks.
const upstream = "notebook-controller"

// notebooks returns the kind as package notebook registers it, as far as its mode
// is concerned.
func notebooks(setting string) Kind {
	return Kind{Name: "Notebook", Setting: setting, Upstream: upstream}
}

// TestKServeIsFound has the image of KServe's controller, of versions 0.11 to 0.15 and of Open Data Hub.
func TestKServeIsFound(t *testing.T) {
	kind := Kind{Name: "InferenceService", Upstream: "kserve-controller"}
	for image, want := range map[string]bool{
		"kserve/kserve-controller:v0.11.0": true, "quay.io/opendatahub/kserve-controller@sha256:00": true, "kserve/models-web-app:v0.11.0": false, "kserve/kserve-localmodel-controller:v0.15.0": false,
	} {
		d := deployment("kserve", "kserve-controller-manager", image, "", 1)
		if got := kind.isUpstream(&d); got != want {
			t.Errorf("%s is KServe's controller: %v, want %v", image, got, want)
		}
	}
}

func TestFindOther(t *testing.T) {
	kind := notebooks("")
	ours := deployment("kube-system", "berth-controller", "berth:local", "berth-controller", 2)
	for _, tt := range []struct {
		name string
		list []appsv1.Deployment
		want string
	}{
		{"nothing runs", nil, ""},
		{"Berth's own is none", []appsv1.Deployment{ours}, ""},
		{"by its label", []appsv1.Deployment{ours, deployment("kubeflow", "notebook-controller-deployment", "mirror/x:1", upstream, 1)}, "deployment kubeflow/notebook-controller-deployment"},
		{"by its image, with a tag", []appsv1.Deployment{deployment("k", "a", "ghcr.io/kubeflow/kubeflow/notebook-controller:v1.10", "", -1)}, "deployment k/a"},
		{"by its image, with a registry's port and a digest", []appsv1.Deployment{deployment("k", "a", "mirror:5000/notebook-controller@sha256:00", "", 1)}, "deployment k/a"},
		{"Open Data Hub's", []appsv1.Deployment{deployment("odh", "a", "quay.io/opendatahub/odh-kf-notebook-controller", "", 1)}, "deployment odh/a"},
		{"an image that only sounds like it", []appsv1.Deployment{deployment("k", "a", "notebook-controller/proxy:1", "", 1)}, ""},
		{"scaled to 0: handed over", []appsv1.Deployment{deployment("kubeflow", "a", "x", upstream, 0)}, ""},
		{"of two the first by name", []appsv1.Deployment{deployment("b", "a", "x", upstream, 1), deployment("a", "z", "x", upstream, 1)}, "deployment a/z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if r := kind.findOther(tt.list); r.name != "" {
				got = r.String()
			}
			if got != tt.want {
				t.Errorf("findOther = %q, want %q", got, tt.want)
			}
			for i := range tt.list {
				slim, err := slimDeployment(tt.list[i].DeepCopy())
				if err != nil {
					t.Fatal(err)
				}
				if s := slim.(*appsv1.Deployment); kind.isUpstream(s) != kind.isUpstream(&tt.list[i]) || kind.findOther([]appsv1.Deployment{*s}) != kind.findOther(tt.list[i:i+1]) {
					t.Errorf("%s is judged otherwise when it is slim", s.Name)
				}
			}
		})
	}
}
