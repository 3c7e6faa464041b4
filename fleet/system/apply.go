package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"berth.dev/berth/api"
)

// Missing returns those of the objects that are not there, in their order: all if the operator's namespace is not, as in a new cluster.
func Missing(ctx context.Context, client kubernetes.Interface, agg aggregator.Interface, objects []runtime.Object) ([]runtime.Object, error) {
	err := get(ctx, client, agg, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: OperatorNamespace}})
	if apierrors.IsNotFound(err) {
		return objects, nil
	}
	var out []runtime.Object
	for _, obj := range objects {
		switch err := get(ctx, client, agg, obj); {
		case apierrors.IsNotFound(err):
			out = append(out, obj)
		case err != nil:
			return nil, fmt.Errorf("look for system object %s: %w", describe(obj), err)
		}
	}
	return out, nil
}

// Apply creates those of the objects that are missing, in their order, and
// leaves all others as they are, so what a user has changed survives a restart. The
// one thing it brings up to date is the CABundle of an APIService that still carries
// Berth's annotation.
//
// It tries every object, and returns what went wrong with each, joined. It
// stops only when ctx ends.
func Apply(ctx context.Context, client kubernetes.Interface, agg aggregator.Interface, objects, missing []runtime.Object) error {
	var errs []error
	for _, obj := range objects {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		err := error(nil)
		if slices.Contains(missing, obj) {
			err = create(ctx, client, agg, obj)
		}
		if service, ok := obj.(*apiregistrationv1.APIService); ok && (err == nil || apierrors.IsAlreadyExists(err)) {
			err = renew(ctx, agg, service)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("create system object %s: %w", describe(obj), err))
		}
	}
	return errors.Join(errs...)
}

// create creates one object.
func create(ctx context.Context, client kubernetes.Interface, agg aggregator.Interface, obj runtime.Object) (err error) {
	var opts metav1.CreateOptions
	switch o := obj.(type) {
	case *v1.Namespace:
		_, err = client.CoreV1().Namespaces().Create(ctx, o, opts)
	case *v1.Service:
		_, err = client.CoreV1().Services(o.Namespace).Create(ctx, o, opts)
	case *appsv1.DaemonSet:
		_, err = client.AppsV1().DaemonSets(o.Namespace).Create(ctx, o, opts)
	case *appsv1.Deployment:
		_, err = client.AppsV1().Deployments(o.Namespace).Create(ctx, o, opts)
	case *storagev1.StorageClass:
		_, err = client.StorageV1().StorageClasses().Create(ctx, o, opts)
	case *nodev1.RuntimeClass:
		_, err = client.NodeV1().RuntimeClasses().Create(ctx, o, opts)
	case *discoveryv1.EndpointSlice:
		_, err = client.DiscoveryV1().EndpointSlices(o.Namespace).Create(ctx, o, opts)
	case *apiregistrationv1.APIService:
		_, err = agg.ApiregistrationV1().APIServices().Create(ctx, o, opts)
	default:
		return errNoClient
	}
	return err
}

// get looks whether an object is there; NotFound is that it is not.
func get(ctx context.Context, client kubernetes.Interface, agg aggregator.Interface, obj runtime.Object) (err error) {
	var opts metav1.GetOptions
	switch o := obj.(type) {
	case *v1.Namespace:
		_, err = client.CoreV1().Namespaces().Get(ctx, o.Name, opts)
	case *v1.Service:
		_, err = client.CoreV1().Services(o.Namespace).Get(ctx, o.Name, opts)
	case *appsv1.DaemonSet:
		_, err = client.AppsV1().DaemonSets(o.Namespace).Get(ctx, o.Name, opts)
	case *appsv1.Deployment:
		_, err = client.AppsV1().Deployments(o.Namespace).Get(ctx, o.Name, opts)
	case *storagev1.StorageClass:
		_, err = client.StorageV1().StorageClasses().Get(ctx, o.Name, opts)
	case *nodev1.RuntimeClass:
		_, err = client.NodeV1().RuntimeClasses().Get(ctx, o.Name, opts)
	case *discoveryv1.EndpointSlice:
		_, err = client.DiscoveryV1().EndpointSlices(o.Namespace).Get(ctx, o.Name, opts)
	case *apiregistrationv1.APIService:
		_, err = agg.ApiregistrationV1().APIServices().Get(ctx, o.Name, opts)
	default:
		return errNoClient
	}
	return err
}

// errNoClient is the error for an object of a kind that create and get lack.
var errNoClient = errors.New("no client for this kind; add it to package system")

// renew sets the CABundle of want in an APIService of ours.
func renew(ctx context.Context, agg aggregator.Interface, want *apiregistrationv1.APIService) error {
	have, err := agg.ApiregistrationV1().APIServices().Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) { // a user has deleted it
			return nil
		}
		return err
	}
	if have.Annotations[api.AnnotationSimulated] == "" || bytes.Equal(have.Spec.CABundle, want.Spec.CABundle) {
		return nil
	}
	have.Spec.CABundle = want.Spec.CABundle
	_, err = agg.ApiregistrationV1().APIServices().Update(ctx, have, metav1.UpdateOptions{})
	return err
}

// describe names an object by Go type, namespace and name.
func describe(obj runtime.Object) string {
	m, ok := obj.(metav1.Object)
	if !ok {
		return fmt.Sprintf("%T", obj)
	}
	if m.GetNamespace() == "" {
		return fmt.Sprintf("%T %s", obj, m.GetName())
	}
	return fmt.Sprintf("%T %s/%s", obj, m.GetNamespace(), m.GetName())
}
