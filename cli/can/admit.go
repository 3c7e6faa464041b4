package can

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/kube/can"
)

// admission asks the API server by dry run what it would make of objects.
type admission struct {
	*client.Cluster
	api       dynamic.Interface
	namespace string                                   // of objects that name none
	made      map[string]bool                          // what the files make: "Namespace a", "ConfigMap a/b"
	kinds     map[string]map[string]metav1.APIResource // by group and version, then kind
	warned    []string
}

// verdict is what the API server says of an object.
type verdict struct {
	object  *unstructured.Unstructured // as it would be stored, or as it is written
	refusal string                     // why it is refused; "" is that it is not
	exists  bool
	notes   []string
}

// HandleWarningHeader keeps what the API server warns of.
func (a *admission) HandleWarningHeader(_ int, _ string, text string) {
	if !slices.Contains(a.warned, text) {
		a.warned = append(a.warned, text)
	}
}

// warnings are those since the last call.
func (a *admission) warnings() []string {
	out := a.warned
	a.warned = nil
	return out
}

// resource finds the resource of an object; "" is that the cluster serves no such kind.
func (a *admission) resource(kind schema.GroupVersionKind) (metav1.APIResource, error) {
	at := kind.GroupVersion().String()
	if a.kinds[at] == nil {
		list, err := a.Discovery().ServerResourcesForGroupVersion(at)
		if err != nil && !apierrors.IsNotFound(err) {
			return metav1.APIResource{}, a.Failed("list the kinds of "+at, err)
		}
		a.kinds[at] = map[string]metav1.APIResource{}
		if list != nil {
			for i := range list.APIResources {
				if r := list.APIResources[i]; !strings.Contains(r.Name, "/") {
					a.kinds[at][r.Kind] = r
				}
			}
		}
	}
	return a.kinds[at][kind.Kind], nil
}

// object has the API server judge an object of a file. Its namespace is filled in.
func (a *admission) object(ctx context.Context, o *unstructured.Unstructured) (verdict, error) {
	kind := o.GroupVersionKind()
	r, err := a.resource(kind)
	if err != nil {
		return verdict{}, err
	}
	if r.Name == "" {
		return verdict{object: o, refusal: can.Unserved(kind)}, nil
	}
	if r.Namespaced && o.GetNamespace() == "" {
		o.SetNamespace(a.namespace)
	}
	key := kind.Kind + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	defer func() { a.made[key] = true }()
	if r.Namespaced && a.made["Namespace "+o.GetNamespace()] {
		return verdict{object: o, notes: []string{"namespace " + o.GetNamespace() + " does not exist yet, so the API server was not asked: defaults, quotas, and policies of a new namespace are not known"}}, nil
	}
	to := a.api.Resource(kind.GroupVersion().WithResource(r.Name))
	try := o.DeepCopy()
	class := a.withoutMade(try)
	made, err := a.dryRun(ctx, to, r.Namespaced, try)
	out := verdict{object: o, notes: a.warnings()}
	switch {
	case err == nil:
		if out.object = made; class != "" {
			_ = unstructured.SetNestedField(made.Object, class, "spec", "priorityClassName") // a Pod has a spec
		}
	case apierrors.IsAlreadyExists(err):
		out.exists = true
	case mayNot(err):
		out.notes = append(out.notes, "you cannot create "+r.Name+", so the API server was not asked: defaults, quotas, and policies are not known")
	default:
		out.refusal, err = a.said(err)
		return out, err
	}
	return out, nil
}

// withoutMade removes from a Pod the priority class and the service account that the files make, which do not exist yet, and
// returns the class.
func (a *admission) withoutMade(o *unstructured.Unstructured) (class string) {
	if o.GetKind() != "Pod" {
		return ""
	}
	if name, _, _ := unstructured.NestedString(o.Object, "spec", "priorityClassName"); a.made["PriorityClass "+name] {
		class = name
		unstructured.RemoveNestedField(o.Object, "spec", "priorityClassName")
	}
	if name, _, _ := unstructured.NestedString(o.Object, "spec", "serviceAccountName"); a.made["ServiceAccount "+o.GetNamespace()+"/"+name] {
		unstructured.RemoveNestedField(o.Object, "spec", "serviceAccountName")
	}
	return class
}

func (a *admission) dryRun(ctx context.Context, to dynamic.NamespaceableResourceInterface, namespaced bool, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	how := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "berth", FieldValidation: metav1.FieldValidationStrict}
	if namespaced {
		return to.Namespace(o.GetNamespace()).Create(ctx, o, how)
	}
	return to.Create(ctx, o, how)
}

// mayNot reports whether a call was refused for lack of a right, not by a policy.
func mayNot(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource")
}

// said is what the API server answered; the error is that it did not.
func (a *admission) said(err error) (string, error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsUnauthorized(err) {
		return "", a.Failed("try the objects by dry run", err)
	}
	return err.Error(), nil
}

// pod has the API server judge a pod that a controller would create, and returns it as it would be stored. What the
// files make counts as if it were there.
func (a *admission) pod(ctx context.Context, p *v1.Pod) (_ *v1.Pod, refusal string, notes []string, _ error) {
	if a.made["Namespace "+p.Namespace] {
		return p, "", nil, nil
	}
	try := p.DeepCopy()
	try.Name, try.GenerateName, try.UID, try.OwnerReferences, try.Status = "", p.Name+"-", "", nil, v1.PodStatus{}
	try.CreationTimestamp = metav1.Time{}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(try)
	if err != nil {
		return nil, "", nil, fmt.Errorf("try the pod %s: %w", p.Name, err)
	}
	o := &unstructured.Unstructured{Object: raw}
	o.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("Pod"))
	class := a.withoutMade(o)
	made, err := a.dryRun(ctx, a.api.Resource(v1.SchemeGroupVersion.WithResource("pods")), true, o)
	notes = a.warnings()
	switch {
	case err == nil:
	case mayNot(err):
		return p, "", append(notes, "you cannot create pods, so the API server was not asked: defaults, quotas, and policies are not known"), nil
	default:
		refusal, err = a.said(err)
		return p, refusal, notes, err
	}
	out := &v1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object, out); err != nil {
		return nil, "", nil, fmt.Errorf("read the pod %s: %w", p.Name, err)
	}
	if class != "" {
		out.Spec.PriorityClassName = class
	}
	return out, "", notes, nil
}
