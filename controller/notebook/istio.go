package notebook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

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
// kind. It is read once after a start, and again when what it should be changes or a
// watch saw it change (routes.go). One that cannot be written is tried again by and by.
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
	if p.mem.routed == sum && !p.routeChanged() {
		return nil
	}
	ok, err = p.putRoute(ctx, want)
	switch {
	case err != nil:
		return err
	case ok:
		p.mem.routed = sum
	default:
		p.mem.routed = ""
		p.later(takenAgain)
	}
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.noIstio.IsZero() {
		r.noIstio = time.Time{}
		select {
		case r.routable <- struct{}{}:
		default:
		}
	}
	return mapping.GroupVersionKind, true, nil
}

// putRoute makes or changes the VirtualService, if it is not as it should be, and says
// whether it is. What keeps it from that is told.
func (p *pass) putRoute(ctx context.Context, want *unstructured.Unstructured) (bool, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(want.GroupVersionKind())
	err := p.reader.Get(ctx, client.ObjectKeyFromObject(want), live)
	switch {
	case apierrors.IsNotFound(err):
		if err = p.client.Create(ctx, want, owner); apierrors.IsNotFound(err) {
			return false, nil // the kind, or the namespace, is going
		}
	case err != nil:
	case !metav1.IsControlledBy(live, p.nb):
		return false, p.tell(ctx, corev1.EventTypeWarning, "NameTaken", "a VirtualService named "+want.GetName()+" exists and does not belong to this notebook; it is not changed", "")
	case equality.Semantic.DeepEqual(want.Object["spec"], live.Object["spec"]):
		return true, nil
	default:
		keepMeta(want, live)
		err = p.client.Update(ctx, want, owner)
	}
	if apierrors.IsForbidden(err) {
		return false, p.tell(ctx, corev1.EventTypeWarning, "NoRoute", "the VirtualService cannot be written: "+err.Error(), "")
	}
	return err == nil, err
}

// makeVirtualService routes the notebook's prefix to its Service.
func makeVirtualService(nb *kubeflow.Notebook, o *Options, kind schema.GroupVersionKind) *unstructured.Unstructured {
	prefix := Prefix(nb.Namespace, nb.Name) + "/"
	set, _ := headersOf(nb) // what cannot be read is omitted, and reported
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
		return out, fmt.Errorf("annotation %s is ignored, because it is not a JSON object of strings: %w", api.AnnotationHeaders, err)
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
