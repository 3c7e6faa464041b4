package notebook_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"berth.dev/berth/api"
	"berth.dev/berth/core/explain"
)

var routeKind = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "VirtualService"}

// kinds are those of the API server: with Istio's or without.
type kinds struct {
	meta.RESTMapper
	istio bool
}

func (k *kinds) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	switch {
	case kind != routeKind.GroupKind():
		return k.RESTMapper.RESTMapping(kind, versions...)
	case !k.istio:
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	resource := routeKind.GroupVersion().WithResource("virtualservices")
	return &meta.RESTMapping{Resource: resource, GroupVersionKind: routeKind, Scope: meta.RESTScopeNamespace}, nil
}

// routed is a world with Istio's kind or without, and one notebook at rest in it.
func routed(t *testing.T, istio bool) *world {
	w := newWorld(t)
	w.kinds.istio, w.o.Istio = istio, true
	w.restart()
	w.apply(asking("nb", 0))
	return w
}

// route is the VirtualService of the notebook; nil is none.
func (w *world) route() *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(routeKind)
	if w.bare.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: "notebook-team-a-nb"}, u) != nil {
		return nil
	}
	return u
}

// rewrites is what the route makes of a path.
func rewrites(u *unstructured.Unstructured) string {
	if u == nil {
		return "there is no route"
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "http")
	to, _, _ := unstructured.NestedString(list[0].(map[string]any), "rewrite", "uri")
	return to
}

func TestARouteFollowsItsNotebook(t *testing.T) {
	w := routed(t, true)
	w.settle()
	if got, want := rewrites(w.route()), "/notebook/team-a/nb/"; got != want {
		t.Fatalf("the route rewrites to %q, want %q", got, want)
	}
	nb := asking("nb", 0)
	nb.Annotations = map[string]string{api.AnnotationRewrite: "/"}
	w.apply(nb)
	w.settle()
	if got := rewrites(w.route()); got != "/" {
		t.Errorf("after the annotation the route rewrites to %q, want /", got)
	}
	before := len(w.writes)
	w.restart()
	w.settle()
	if len(w.writes) > before {
		t.Errorf("after a restart it writes %q", w.writes[before:])
	}
}

// TestARefusedRouteIsTriedAgain: who is refused a route gets it when that is put right,
// and nothing else of the notebook waits for it.
func TestARefusedRouteIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		name, event string
		refuse      func(w *world)
		mend        func(w *world)
	}{
		{
			"the right to write is missing", "Warning NoRoute: the VirtualService cannot be written: ",
			func(w *world) { w.forbid = "VirtualService" },
			func(w *world) { w.forbid = "" },
		},
		{
			"the name is taken", "Warning NameTaken: a VirtualService named notebook-team-a-nb exists and does not belong to this notebook",
			func(w *world) {
				u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
				u.SetGroupVersionKind(routeKind)
				u.SetNamespace(namespace)
				u.SetName("notebook-team-a-nb")
				w.must(w.bare.Create(w.t.Context(), u))
			},
			func(w *world) { w.must(w.bare.Delete(w.t.Context(), w.route())) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := routed(t, true)
			c.refuse(w)
			for range 4 {
				w.again("nb")
				w.sets()
				w.schedule()
				w.run()
				w.now = w.now.Add(time.Minute)
			}
			if again := w.again("nb"); again != time.Minute {
				t.Errorf("it is looked at again after %s, want a minute", again)
			}
			if got := reason(w.get("nb")); got != explain.Ready {
				t.Errorf("without a route Ready's reason is %s", got)
			}
			told := slices.DeleteFunc(w.told("nb"), func(s string) bool { return !strings.HasPrefix(s, c.event) })
			if len(told) != 1 {
				t.Errorf("events are %q, want one %s", w.told("nb"), c.event)
			}
			c.mend(w)
			w.again("nb")
			if got, want := rewrites(w.route()), "/notebook/team-a/nb/"; got != want {
				t.Errorf("when that is put right the route rewrites to %q, want %q", got, want)
			}
			if again := w.again("nb"); again != 0 {
				t.Errorf("at rest it is looked at again after %s", again)
			}
		})
	}
}

// TestIstioMayComeLater: notebooks that are at rest when its kind comes get their
// routes, too.
func TestIstioMayComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := routed(t, false)
		w.settle()
		w.kinds.istio = true
		w.now = w.now.Add(time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		again, ended := make(chan event.GenericEvent), make(chan error, 1)
		watched := 0
		go func() {
			ended <- w.r.FollowIstio(ctx, again, func(toolscache.ResourceEventHandler) { watched++ })
		}()
		if o := (<-again).Object; o.GetNamespace() != namespace || o.GetName() != "nb" {
			t.Errorf("%s/%s is looked at again, want the notebook", o.GetNamespace(), o.GetName())
		}
		w.reconcile()
		if got, want := rewrites(w.route()), "/notebook/team-a/nb/"; got != want {
			t.Errorf("the route rewrites to %q, want %q", got, want)
		}
		time.Sleep(time.Hour) // of the bubble's time
		synctest.Wait()
		select {
		case <-again:
			t.Error("it is looked at again though nothing has come")
		default:
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if watched != 1 {
			t.Errorf("%d watches were started, want 1", watched)
		}
	})
}

// TestARouteThatOthersChangeIsPutRight: changed or deleted, it is as it should be again
// after one pass, and its notebook is sent for that pass.
func TestARouteThatOthersChangeIsPutRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := routed(t, true)
		w.settle()
		ctx, stop := context.WithCancel(t.Context())
		again, ended := make(chan event.GenericEvent), make(chan error, 1)
		handlers := make(chan toolscache.ResourceEventHandler, 1)
		go func() {
			ended <- w.r.FollowIstio(ctx, again, func(h toolscache.ResourceEventHandler) { handlers <- h })
		}()
		handler := <-handlers
		was := w.route()
		edited := was.DeepCopy()
		edited.SetGeneration(was.GetGeneration() + 1)
		if err := unstructured.SetNestedStringSlice(edited.Object, []string{"elsewhere"}, "spec", "hosts"); err != nil {
			t.Fatal(err)
		}
		orphan := was.DeepCopy()
		orphan.SetOwnerReferences(nil)
		for _, c := range []struct {
			name   string
			change func()
		}{
			{"edited", func() { w.must(w.bare.Update(t.Context(), edited)); handler.OnUpdate(was, edited) }},
			{"deleted", func() { w.must(w.bare.Delete(t.Context(), w.route())); handler.OnDelete(was) }},
			{"deleted while the watch was down", func() {
				w.must(w.bare.Delete(t.Context(), w.route()))
				handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: was})
			}},
		} {
			before := len(w.writes)
			go c.change()
			if o := (<-again).Object; o.GetNamespace() != namespace || o.GetName() != "nb" {
				t.Errorf("%s: %s/%s is looked at again, want the notebook", c.name, o.GetNamespace(), o.GetName())
			}
			w.reconcile()
			hosts, _, _ := unstructured.NestedStringSlice(w.route().Object, "spec", "hosts")
			if !slices.Equal(hosts, []string{"*"}) || len(w.writes) != before+1 {
				t.Errorf("%s: its hosts are %q after writes %q, want * after one", c.name, hosts, w.writes[before:])
			}
		}
		marked := was.DeepCopy()
		marked.SetAnnotations(map[string]string{"a": "b"})
		foreign := was.DeepCopy()
		foreign.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Notebook", Name: "nb", Controller: new(true)}})
		handler.OnUpdate(was, marked) // metadata only
		handler.OnDelete(foreign)     // of another kind
		handler.OnDelete(orphan)
		synctest.Wait()
		select {
		case <-again:
			t.Error("a change that does not concern the notebook has it looked at again")
		default:
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
