package server

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/controller/notebook"
	"berth.dev/berth/kube/view"
)

// rival is a deployment that runs another controller of notebooks.
type rival struct {
	namespace, name string
	uid             types.UID
}

func (r rival) String() string { return "deployment " + r.namespace + "/" + r.name }

// upstream is what Kubeflow's controller of notebooks is called: the value of label
// app on its deployment, and the end of the name of its image, whoever built it
// (Open Data Hub's is odh-kf-notebook-controller).
const upstream = "notebook-controller"

// isRival says whether a deployment is another controller of notebooks, running or
// not.
func isRival(d *appsv1.Deployment) bool {
	if d.Labels["app"] == upstream {
		return true
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		if strings.HasSuffix(view.ImageName(c.Image), upstream) {
			return true
		}
	}
	return false
}

// findRival gives the deployment that runs another controller of notebooks, the
// first by namespace and name; the zero value is none. One that is scaled to 0 runs
// nothing: so is Kubeflow's handed over to Berth.
func findRival(list []appsv1.Deployment) rival {
	var found rival
	for i := range list {
		d := &list[i]
		if !isRival(d) || d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			continue
		}
		r := rival{d.Namespace, d.Name, d.UID}
		if found.name == "" || r.String() < found.String() {
			found = r
		}
	}
	return found
}

// cacheOptions says what is watched and kept: what the controllers need, and of
// deployments what isRival reads.
func cacheOptions() cache.Options {
	o, shared := notebook.CacheOptions(), true
	o.ByObject[client.Object(&appsv1.Deployment{})] = cache.ByObject{Transform: slimDeployment, UnsafeDisableDeepCopy: &shared}
	return o
}

// slimDeployment keeps of a deployment what isRival and findRival read.
func slimDeployment(o any) (any, error) {
	d, ok := o.(*appsv1.Deployment)
	if !ok {
		return o, nil
	}
	slim := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion, Labels: d.Labels,
	}}
	slim.Spec.Replicas = d.Spec.Replicas
	for _, c := range d.Spec.Template.Spec.Containers {
		slim.Spec.Template.Spec.Containers = append(slim.Spec.Template.Spec.Containers, corev1.Container{Image: c.Image})
	}
	return slim, nil
}
