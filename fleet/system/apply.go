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
	_, err := client.CoreV1().Namespaces().Get(ctx, OperatorNamespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return objects, nil
	}
	var out []runtime.Object
	for _, obj := range objects {
		switch err := accessTo(client, agg, obj).get(ctx); {
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
			err = accessTo(client, agg, obj).create(ctx)
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

// access is how one object is created and looked for.
type access struct{ create, get func(context.Context) error }

// clientOf is a client for the objects of one kind.
type clientOf[T any] interface {
	Create(ctx context.Context, o T, opts metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

// by is the access to an object by the client for its kind.
func by[T metav1.Object](c clientOf[T], o T) access {
	return access{
		create: func(ctx context.Context) error {
			_, err := c.Create(ctx, o, metav1.CreateOptions{})
			return err
		},
		get: func(ctx context.Context) error {
			_, err := c.Get(ctx, o.GetName(), metav1.GetOptions{})
			return err
		},
	}
}

// accessTo returns how an object is created and looked for.
func accessTo(client kubernetes.Interface, agg aggregator.Interface, obj runtime.Object) access {
	switch o := obj.(type) {
	case *v1.Namespace:
		return by(client.CoreV1().Namespaces(), o)
	case *v1.Service:
		return by(client.CoreV1().Services(o.Namespace), o)
	case *appsv1.DaemonSet:
		return by(client.AppsV1().DaemonSets(o.Namespace), o)
	case *appsv1.Deployment:
		return by(client.AppsV1().Deployments(o.Namespace), o)
	case *storagev1.StorageClass:
		return by(client.StorageV1().StorageClasses(), o)
	case *nodev1.RuntimeClass:
		return by(client.NodeV1().RuntimeClasses(), o)
	case *discoveryv1.EndpointSlice:
		return by(client.DiscoveryV1().EndpointSlices(o.Namespace), o)
	case *apiregistrationv1.APIService:
		return by(agg.ApiregistrationV1().APIServices(), o)
	}
	unknown := func(context.Context) error { return errors.New("no client for this kind; add it to package system") }
	return access{create: unknown, get: unknown}
}

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
