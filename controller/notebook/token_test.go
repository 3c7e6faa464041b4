package notebook_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/kube/view"
)

// taking is a Notebook whose server takes a token.
func taking(name string) *kubeflow.Notebook {
	nb := asking(name, 1)
	nb.Annotations = map[string]string{api.AnnotationNotebookToken: api.TokenJupyter}
	return nb
}

// token is that of the pod that the StatefulSet makes; "" is none.
func (w *world) token(name string) string {
	w.t.Helper()
	set := &appsv1.StatefulSet{}
	w.must(w.bare.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, set))
	return view.NotebookToken(&set.Spec.Template.Spec)
}

func TestATokenStaysAsLongAsItsNotebook(t *testing.T) {
	w := newWorld(t)
	w.must(w.bare.Create(t.Context(), w.node(8)))
	for _, nb := range []*kubeflow.Notebook{taking("nb"), taking("other"), asking("bare", 1)} {
		w.apply(nb)
	}
	w.settle()
	token := w.token("nb")
	if len(token) < 26 || token == w.token("other") || w.token("bare") != "" {
		t.Fatalf("tokens are %q, %q and, of one that takes none, %q", token, w.token("other"), w.token("bare"))
	}
	w.restart()
	stopped := taking("nb")
	stopped.Annotations[api.AnnotationStopped] = "now"
	for _, nb := range []*kubeflow.Notebook{taking("nb"), stopped, taking("nb")} {
		w.apply(nb)
		w.settle()
		if got := w.token("nb"); got != token {
			t.Errorf("the token is %q, want %q as before", got, token)
		}
	}
	if len(w.born) != 4 {
		t.Errorf("%d pods were made, want 3 and one for the start", len(w.born))
	}
}

func TestATokenIsNotForWhatRunsAlready(t *testing.T) {
	w := newWorld(t)
	w.must(w.bare.Create(t.Context(), w.node(8)))
	w.apply(asking("nb", 1))
	w.settle()
	w.apply(taking("nb"))
	w.settle()
	if got := w.token("nb"); got != "" || len(w.born) != 1 {
		t.Errorf("a notebook that runs gets token %q, and %d pods were made", got, len(w.born))
	}
	w.madeByKubeflow("nb")
	w.restart()
	w.settle()
	if got := w.token("nb"); got != "" || len(w.born) != 1 {
		t.Errorf("taken over, it gets token %q, and %d pods were made", got, len(w.born))
	}
}

func TestATokenOfTheUserStays(t *testing.T) {
	w := newWorld(t)
	nb := taking("nb")
	nb.Spec.Template.Spec.Raw = []byte(`{"containers":[{"name":"nb","image":"x/y:1","env":[{"name":"JUPYTER_TOKEN","value":"mine"}]}]}`)
	w.apply(nb)
	w.settle()
	if got := w.token("nb"); got != "mine" {
		t.Errorf("the token is %q, want the user's", got)
	}
}

func TestBehindIstioThereIsNoToken(t *testing.T) {
	for _, istio := range []bool{true, false} {
		w := routed(t, istio)
		w.apply(taking("nb"))
		w.settle()
		if got := w.token("nb"); (got == "") != istio {
			t.Errorf("with VirtualServices %v the token is %q", istio, got)
		}
	}
}
