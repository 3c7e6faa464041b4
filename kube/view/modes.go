package view

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The record of what Berth's controllers do with kinds that others may run too: a
// ConfigMap of this name and namespace. Its keys are the plurals of kinds, such as
// "notebooks", whose values are own, govern or off, and the plurals with ModeWhy.
const (
	ModesNamespace = "kube-system"
	ModesName      = "berth-controller"

	// ModeWhy is the end of the key of a mode's cause, such as "deployment
	// kubeflow/notebook-controller runs"; "" is nothing to say.
	ModeWhy = "-why"
)

// NotebookMode reads in which mode Berth's controllers have notebooks, and why; ""
// is that none of them has run in this cluster.
func NotebookMode(ctx context.Context, client kubernetes.Interface) (mode, why string, err error) {
	m, err := client.CoreV1().ConfigMaps(ModesNamespace).Get(ctx, ModesName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	const kinds = "notebooks"
	return m.Data[kinds], m.Data[kinds+ModeWhy], nil
}
