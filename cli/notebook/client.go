package notebook

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

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
)

// roleNotebookUser is the ClusterRole that lets a user have notebooks.
const roleNotebookUser = "berth-notebook-user"

// Notebooks are the notebooks of one namespace of a cluster.
type Notebooks struct {
	*client.Cluster
	Client    dynamic.Interface
	Namespace string
	Options   client.Options
	prospects Prospects // nil if nothing waits here
}

// In is the client for the notebooks of a namespace.
func (n *Notebooks) In(namespace string) dynamic.ResourceInterface {
	return n.Client.Resource(kubeflow.Resource).Namespace(namespace)
}

// List returns the notebooks of the namespace, or of all, by namespace and name.
func (n *Notebooks) List(ctx context.Context, all bool, selector string) ([]kubeflow.Notebook, error) {
	from := n.In(n.Namespace)
	if all {
		from = n.Client.Resource(kubeflow.Resource)
	}
	found, err := from.List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		return nil, n.Refused("list notebooks", "list", err)
	}
	out := make([]kubeflow.Notebook, 0, len(found.Items))
	for i := range found.Items {
		nb, err := FromObject(&found.Items[i])
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

// Get reads one notebook. One that is not there is an error that names the
// nearest, or the namespace that has one of that name.
func (n *Notebooks) Get(ctx context.Context, name string) (*kubeflow.Notebook, error) {
	found, err := n.In(n.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !NoSuchKind(err) {
		return nil, n.unknown(ctx, name)
	}
	if err != nil {
		return nil, n.Refused("read notebook "+n.Namespace+"/"+name, "get", err)
	}
	return FromObject(found)
}

// unknown says that there is no notebook of that name, and which there are.
func (n *Notebooks) unknown(ctx context.Context, name string) error {
	list, err := n.List(ctx, true, "")
	if err != nil { // perhaps not all namespaces may be read
		if list, err = n.List(ctx, false, ""); err != nil {
			return fmt.Errorf("there is no notebook %s in namespace %s", name, n.Namespace)
		}
	}
	var here []string
	for i := range list {
		if list[i].Namespace == n.Namespace {
			here = append(here, list[i].Name)
		}
	}
	if near := gpu.NearestWord(name, here); near != "" {
		return fmt.Errorf("there is no notebook %s in namespace %s; did you mean %s?", name, n.Namespace, near)
	}
	for i := range list {
		if list[i].Name == name {
			return fmt.Errorf("there is no notebook %s in namespace %s, but there is one in namespace %s: use -n %s",
				name, n.Namespace, list[i].Namespace, list[i].Namespace)
		}
	}
	if len(here) == 0 {
		return fmt.Errorf("there is no notebook %s in namespace %s, which has none; `%s notebook create` creates one", name, n.Namespace, n.Program())
	}
	return fmt.Errorf("there is no notebook %s in namespace %s; existing notebooks: %s", name, n.Namespace, term.FitList("", here, term.PlainWidth/2))
}

// annotate sets annotations of a notebook, nil removing one, and nothing else.
func (n *Notebooks) annotate(ctx context.Context, name, what string, notes map[string]any) (*kubeflow.Notebook, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": notes}})
	if err != nil {
		return nil, fmt.Errorf("%s notebook %s: %w", what, name, err)
	}
	changed, err := n.In(n.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "berth"})
	if err != nil {
		return nil, n.Refused(what+" notebook "+n.Namespace+"/"+name, "patch", err)
	}
	return FromObject(changed)
}

// Refused explains what a call about notebooks returned: a kind that is not
// served, a right that is missing, or what failed says of all calls.
func (n *Notebooks) Refused(what, verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case NoSuchKind(err):
		return fmt.Errorf("%s on %s: this cluster does not serve notebooks; install `%s controller` or Kubeflow", what, n.Name, n.Program())
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot "+verb+" resource"):
		return fmt.Errorf("%s on %s: %w; an administrator can grant it with `kubectl create rolebinding notebooks -n %s --clusterrole=%s --user=NAME`",
			what, n.Name, err, n.Namespace, roleNotebookUser)
	}
	return n.Failed(what, err)
}

// Program is how the user calls this program.
func (n *Notebooks) Program() string { return n.Options.Name }

// NoSuchKind tells an answer for a path that the server does not have from one
// for an object that is not there: the first is no Status of the API's.
func NoSuchKind(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) ||
		strings.Contains(status.Status().Message, "the server could not find the requested resource")
}

// FromObject reads a notebook from its JSON.
func FromObject(u *unstructured.Unstructured) (*kubeflow.Notebook, error) {
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

// ToObject is a notebook as it is sent: without status.
func ToObject(nb *kubeflow.Notebook) (*unstructured.Unstructured, error) {
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
