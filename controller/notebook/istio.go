package notebook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
)

// virtualServiceKind is Istio's kind, in whatever version the cluster prefers.
var virtualServiceKind = schema.GroupKind{Group: "networking.istio.io", Kind: "VirtualService"} //nolint:gochecknoglobals // a constant

// route makes the VirtualService what it should be, where the cluster has that
// kind. It is not watched: it is read once after a start, and again when what it
// should be changes.
func (p *pass) route(ctx context.Context) error {
	if !p.o.Istio {
		return nil
	}
	kind, ok, err := p.istioKind()
	if !ok || err != nil {
		return err
	}
	want := makeVirtualService(p.nb, &p.o, kind)
	if _, err := headersOf(p.nb); err != nil {
		if err := p.tell(ctx, corev1.EventTypeWarning, "BadHeaders", err.Error(), ""); err != nil {
			return err
		}
	}
	sum, err := hash(want.Object)
	if err != nil {
		return err
	}
	if p.mem.routed == sum {
		return nil
	}
	if err := p.putRoute(ctx, want); err != nil {
		return err
	}
	p.mem.routed = sum
	return nil
}

// istioKind is the version of Istio's kind that the cluster has. That it has none is
// believed for a minute, as each question costs the API server one.
func (r *Reconciler) istioKind() (kind schema.GroupVersionKind, ok bool, err error) {
	r.mu.Lock()
	none := !r.noIstio.IsZero() && r.now().Sub(r.noIstio) < noIstioFor
	r.mu.Unlock()
	if none {
		return kind, false, nil
	}
	mapping, err := r.client.RESTMapper().RESTMapping(virtualServiceKind)
	switch {
	case meta.IsNoMatchError(err):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.noIstio = r.now()
		return kind, false, nil
	case err != nil:
		return kind, false, fmt.Errorf("find kind %s: %w", virtualServiceKind.Kind, err)
	}
	return mapping.GroupVersionKind, true, nil
}

// putRoute makes or changes the VirtualService, if it is not as it should be.
func (p *pass) putRoute(ctx context.Context, want *unstructured.Unstructured) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(want.GroupVersionKind())
	err := p.reader.Get(ctx, client.ObjectKeyFromObject(want), live)
	switch {
	case apierrors.IsNotFound(err):
		err = p.client.Create(ctx, want, owner)
	case err != nil:
	case !metav1.IsControlledBy(live, p.nb):
		return p.tell(ctx, corev1.EventTypeWarning, "NameTaken", "a VirtualService named "+want.GetName()+" is not of this notebook, and is left alone", "")
	case equality.Semantic.DeepEqual(want.Object["spec"], live.Object["spec"]):
		return nil
	default:
		keepMeta(want, live)
		err = p.client.Update(ctx, want, owner)
	}
	if apierrors.IsForbidden(err) {
		return p.tell(ctx, corev1.EventTypeWarning, "NoRoute", "the VirtualService cannot be written: "+err.Error(), "")
	}
	return err
}

// makeVirtualService routes the notebook's prefix to its Service.
func makeVirtualService(nb *kubeflow.Notebook, o *Options, kind schema.GroupVersionKind) *unstructured.Unstructured {
	prefix := Prefix(nb.Namespace, nb.Name) + "/"
	set, _ := headersOf(nb) // what cannot be read is left out, and told of
	m := childMeta(nb)
	m["name"] = "notebook-" + nb.Namespace + "-" + nb.Name
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": m,
		"spec": map[string]any{
			"hosts":    []any{cmp.Or(o.IstioHost, "*")},
			"gateways": []any{cmp.Or(o.IstioGateway, "kubeflow/kubeflow-gateway")},
			"http": []any{map[string]any{
				"headers": map[string]any{"request": map[string]any{"set": set}},
				"match":   []any{map[string]any{"uri": map[string]any{"prefix": prefix}}},
				"rewrite": map[string]any{"uri": cmp.Or(nb.Annotations[api.AnnotationRewrite], prefix)},
				"route": []any{map[string]any{"destination": map[string]any{
					"host": nb.Name + "." + nb.Namespace + ".svc." + cmp.Or(o.Domain, "cluster.local"),
					"port": map[string]any{"number": int64(servicePort)},
				}}},
			}},
		},
	}}
}

// headersOf reads the annotation that sets request headers: a JSON object of
// strings.
func headersOf(nb *kubeflow.Notebook) (map[string]any, error) {
	out := map[string]any{}
	raw := nb.Annotations[api.AnnotationHeaders]
	if raw == "" {
		return out, nil
	}
	var list map[string]string
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		return out, fmt.Errorf("annotation %s is no JSON object of strings, and sets no header: %w", api.AnnotationHeaders, err)
	}
	for k, v := range list {
		out[k] = v
	}
	return out, nil
}

// VirtualService is what is made of a notebook where Istio's kind is there.
func VirtualService(nb *kubeflow.Notebook, o Options, kind schema.GroupVersionKind) map[string]any {
	return makeVirtualService(nb, &o, kind).Object
}
