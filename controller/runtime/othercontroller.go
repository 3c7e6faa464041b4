package runtime

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// otherController is a Deployment that runs a kind instead of Berth; the zero value
// is none.
type otherController struct {
	namespace, name string
	uid             types.UID
}

// String names the Deployment, with its namespace.
func (o otherController) String() string { return "deployment " + o.namespace + "/" + o.name }

// findOther returns the Deployment that runs the kind, the first by namespace and
// name. One that is scaled to 0 runs nothing: its owner has handed over to Berth.
func (k *Kind) findOther(list []appsv1.Deployment) otherController {
	var found otherController
	for i := range list {
		d := &list[i]
		if !k.isUpstream(d) || d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			continue
		}
		o := otherController{d.Namespace, d.Name, d.UID}
		if found.name == "" || o.String() < found.String() {
			found = o
		}
	}
	return found
}

// slimDeployment keeps of a Deployment what isUpstream and findOther read.
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
