package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/gpu"
)

// roleNotebookUser is the ClusterRole that lets a user have notebooks.
const roleNotebookUser = "berth-notebook-user"

// notebooks are the notebooks of one namespace of a cluster.
type notebooks struct {
	*cluster
	client    dynamic.Interface
	namespace string
	o         Options
}

// dynamic makes the client for kinds that have no typed one.
func (c *cluster) dynamic(o Options) (dynamic.Interface, error) {
	connect := o.Dynamic
	if connect == nil {
		connect = func(cfg *rest.Config) (dynamic.Interface, error) { return dynamic.NewForConfig(cfg) }
	}
	client, err := connect(c.config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.name, err)
	}
	return client, nil
}

func (n *notebooks) in(namespace string) dynamic.ResourceInterface {
	return n.client.Resource(kubeflow.Resource).Namespace(namespace)
}

// list returns the notebooks of the namespace, or of all, by namespace and name.
func (n *notebooks) list(ctx context.Context, all bool, selector string) ([]kubeflow.Notebook, error) {
	from := n.in(n.namespace)
	if all {
		from = n.client.Resource(kubeflow.Resource)
	}
	found, err := from.List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		return nil, n.refused("list notebooks", "list", err)
	}
	out := make([]kubeflow.Notebook, 0, len(found.Items))
	for i := range found.Items {
		nb, err := notebookOf(&found.Items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, *nb)
	}
	slices.SortFunc(out, func(a, b kubeflow.Notebook) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out, nil
}

// get reads one notebook. One that is not there is an error that names the
// nearest, or the namespace that has one of that name.
func (n *notebooks) get(ctx context.Context, name string) (*kubeflow.Notebook, error) {
	found, err := n.in(n.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !noSuchKind(err) {
		return nil, n.unknown(ctx, name)
	}
	if err != nil {
		return nil, n.refused("read notebook "+n.namespace+"/"+name, "get", err)
	}
	return notebookOf(found)
}

// unknown says that there is no notebook of that name, and which there are.
func (n *notebooks) unknown(ctx context.Context, name string) error {
	list, err := n.list(ctx, true, "")
	if err != nil { // perhaps not all namespaces may be read
		if list, err = n.list(ctx, false, ""); err != nil {
			return fmt.Errorf("there is no notebook %s in namespace %s", name, n.namespace)
		}
	}
	var here []string
	for i := range list {
		if list[i].Namespace == n.namespace {
			here = append(here, list[i].Name)
		}
	}
	if near := gpu.NearestWord(name, here); near != "" {
		return fmt.Errorf("there is no notebook %s in namespace %s; did you mean %s?", name, n.namespace, near)
	}
	for i := range list {
		if list[i].Name == name {
			return fmt.Errorf("there is no notebook %s in namespace %s, but there is one in namespace %s: use -n %s",
				name, n.namespace, list[i].Namespace, list[i].Namespace)
		}
	}
	if len(here) == 0 {
		return fmt.Errorf("there is no notebook %s in namespace %s, which has none; `%s notebook create` creates one", name, n.namespace, n.program())
	}
	return fmt.Errorf("there is no notebook %s in namespace %s; existing notebooks: %s", name, n.namespace, fitList("", here, plainWidth/2))
}

// annotate sets annotations of a notebook, nil removing one, and nothing else.
func (n *notebooks) annotate(ctx context.Context, name, what string, notes map[string]any) (*kubeflow.Notebook, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": notes}})
	if err != nil {
		return nil, fmt.Errorf("%s notebook %s: %w", what, name, err)
	}
	changed, err := n.in(n.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "berth"})
	if err != nil {
		return nil, n.refused(what+" notebook "+n.namespace+"/"+name, "patch", err)
	}
	return notebookOf(changed)
}

// refused explains what a call about notebooks returned: a kind that is not
// served, a right that is missing, or what failed says of all calls.
func (n *notebooks) refused(what, verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case noSuchKind(err):
		return fmt.Errorf("%s on %s: this cluster does not serve notebooks; install `%s controller` or Kubeflow", what, n.name, n.program())
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot "+verb+" resource"):
		return fmt.Errorf("%s on %s: %w; an administrator can grant it with `kubectl create rolebinding notebooks -n %s --clusterrole=%s --user=NAME`",
			what, n.name, err, n.namespace, roleNotebookUser)
	}
	return n.failed(what, err)
}

// program is how the user calls this program.
func (n *notebooks) program() string { return n.o.Name }

// noSuchKind tells an answer for a path that the server does not have from one
// for an object that is not there: the first is no Status of the API's.
func noSuchKind(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) ||
		strings.Contains(status.Status().Message, "the server could not find the requested resource")
}

// notebookOf reads a notebook from its JSON.
func notebookOf(u *unstructured.Unstructured) (*kubeflow.Notebook, error) {
	raw, err := u.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("read notebook %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	var nb kubeflow.Notebook
	if err := json.Unmarshal(raw, &nb); err != nil {
		return nil, fmt.Errorf("read notebook %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return &nb, nil
}

// objectOf is a notebook as it is sent: without status.
func objectOf(nb *kubeflow.Notebook) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(nb)
	if err != nil {
		return nil, fmt.Errorf("write notebook %s: %w", nb.Name, err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("write notebook %s: %w", nb.Name, err)
	}
	unstructured.RemoveNestedField(u.Object, "status")
	if nb.CreationTimestamp.IsZero() {
		unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	}
	u.SetManagedFields(nil)
	return u, nil
}
