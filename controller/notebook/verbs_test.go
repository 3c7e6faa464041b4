package notebook_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/idle"
	"berth.dev/berth/controller/notebook"
	"berth.dev/berth/controller/runtime"
)

// asked are the verbs that an API server was asked for, as "verb group/resource".
type asked map[string]bool

func (a asked) note(w *world, o any, sub string, verbs ...string) {
	kind, err := apiutil.GVKForObject(o.(client.Object), w.bare.Scheme())
	w.must(err)
	for _, verb := range verbs {
		a[verb+" "+kind.Group+"/"+strings.ToLower(strings.TrimSuffix(kind.Kind, "List"))+"s"+sub] = true
	}
}

// listen makes a client of one that notes what it is asked for. One that reads from a
// cache needs to list and watch what it reads.
func (a asked) listen(w *world, c client.WithWatch, cached bool) client.WithWatch {
	read := func(o any, verb string) {
		if cached {
			a.note(w, o, "", "list", "watch")
		} else {
			a.note(w, o, "", verb)
		}
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			read(o, "get")
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			kind, err := apiutil.GVKForObject(list, w.bare.Scheme())
			w.must(err)
			of := &metav1.PartialObjectMetadata{}
			of.SetGroupVersionKind(kind)
			read(of, "list")
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			a.note(w, o, "", "create")
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			a.note(w, o, "", "update")
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			a.note(w, o, "", "delete")
			return c.Delete(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			a.note(w, o, "", "patch")
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			a.note(w, o, "/"+sub, "patch")
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
}

// others is what is asked for by what the world of these tests has not: packages idle
// and runtime, and client-go.
var others = map[string]string{
	"patch kubeflow.org/notebooks":                     "idle: annotations",
	"list /namespaces":                                 "idle: policies",
	"watch /namespaces":                                "idle: policies",
	"get metrics.k8s.io/pods":                          "idle: CPU time",
	"get /pods/proxy":                                  "idle: exporters",
	"update kubeflow.org/notebooks/finalizers":         "the API server's admission, where it checks owner references",
	"patch /events":                                    "client-go: repeated events of the election",
	"create events.k8s.io/events":                      "client-go: what idle and runtime report",
	"patch events.k8s.io/events":                       "client-go: repeated events",
	"list networking.istio.io/virtualservices":         "a watch of them, which only a manager has",
	"watch networking.istio.io/virtualservices":        "a watch of them, which only a manager has",
	"list apps/deployments":                            "runtime: other controllers",
	"watch apps/deployments":                           "runtime: other controllers",
	"create authentication.k8s.io/tokenreviews":        "runtime: who asks for metrics",
	"create authorization.k8s.io/subjectaccessreviews": "runtime: whether they may",
}

// TestTheRoleIsWhatIsAskedFor lives through all that the reconciler writes, and what it
// reads, and compares that with the role of the controllers, both ways.
func TestTheRoleIsWhatIsAskedFor(t *testing.T) {
	got := asked{}
	for need := range maps.Keys(others) {
		got[need] = true
	}
	w := newWorld(t)
	w.must(w.bare.Create(t.Context(), w.node(8)))
	w.kinds.istio, w.o.Istio = true, true
	catchUp := w.lag()
	w.restarted = func() {
		w.r = notebook.NewReconciler(got.listen(w, w.lagged, true), got.listen(w, w.bare, false), w.o, w.clock)
	}
	w.eachPass = catchUp
	catchUp()
	w.restart()
	w.settleWith(asking("nb", 1))

	// A Service that is not labeled is not in the cache; nor is a StatefulSet.
	key := types.NamespacedName{Namespace: namespace, Name: "nb"}
	var set appsv1.StatefulSet
	var service corev1.Service
	w.must(w.bare.Get(t.Context(), key, &set))
	w.must(w.bare.Get(t.Context(), key, &service))
	set.Labels, service.Labels = nil, nil
	w.must(w.bare.Update(t.Context(), &set))
	w.must(w.bare.Update(t.Context(), &service))
	w.settle()

	// A change that needs room, and a route of another kind.
	two := asking("nb", 2)
	two.Annotations = map[string]string{api.AnnotationRewrite: "/"}
	w.settleWith(two)

	// One that nothing can be made of any more is stopped.
	broken := notebookOf("nb", `{"containers":[]}`)
	broken.Annotations = map[string]string{api.AnnotationStopped: ""}
	w.settleWith(broken)

	want := asked{}
	for _, r := range runtime.Rules(notebook.Kind("", notebook.Options{}, idle.Options{})) {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					want[verb+" "+group+"/"+resource] = true
				}
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))); diff != "" {
		t.Errorf("the role is not what is asked for (-asked +role):\n%s", diff)
	}
}

// settleWith applies a notebook, and lets everybody work until it is as it says.
func (w *world) settleWith(nb *kubeflow.Notebook) {
	w.t.Helper()
	w.apply(nb)
	w.settle()
	w.now = w.now.Add(time.Minute)
}
