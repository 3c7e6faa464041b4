package notebook_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	rules "berth.dev/berth/core/notebook"
)

// story is a notebook's life: made, run, changed, stopped and started again. It
// goes on after every failure with a new process.
func story(w *world) {
	w.t.Helper()
	steps := []*kubeflow.Notebook{asking("nb", 1), asking("nb", 2), asking("nb", 2), asking("nb", 2)}
	steps[2].Annotations = map[string]string{api.AnnotationStopped: "2026-11-21T10:00:00Z"}
	for _, nb := range steps {
		w.apply(nb)
		for quiet := 0; quiet < 3; quiet++ {
			before := len(w.writes)
			if err := w.pass(); err != nil {
				w.restart()
			}
			w.sets()
			w.schedule()
			w.run()
			if len(w.writes) > before {
				quiet = 0
			}
		}
	}
}

// TestADeathAtAnyWriteChangesNothing breaks each write of a story in turn, before
// and after it is done, and starts a new process: the story ends the same, with
// as many pods and as many events.
func TestADeathAtAnyWriteChangesNothing(t *testing.T) {
	calm := newWorld(t)
	calm.must(calm.bare.Create(t.Context(), calm.node(8)))
	story(calm)
	want, events, pods := said(calm.get("nb"), "Ready"), calm.told("nb"), len(calm.born)
	if want != "True Ready: on node n1" || pods != 3 {
		t.Fatalf("undisturbed, the story ends with %q after %d pods; want it Ready after 3: one, one for the change, one for the start", want, pods)
	}
	for _, how := range []breakage{lost, unheard} {
		for at := 1; at <= len(calm.writes); at++ {
			t.Run(fmt.Sprint(map[breakage]string{lost: "lost ", unheard: "unheard "}[how], at, " ", calm.writes[at-1]), func(t *testing.T) {
				w := newWorld(t)
				w.breakAt, w.breakHow = at, how
				w.must(w.bare.Create(t.Context(), w.node(8)))
				story(w)
				if got := said(w.get("nb"), "Ready"); got != want {
					t.Errorf("Ready is %q, want %q", got, want)
				}
				if len(w.born) != pods {
					t.Errorf("%d pods were made, want %d", len(w.born), pods)
				}
				if got := w.told("nb"); !slices.Equal(got, events) {
					t.Errorf("events are\n%q, want\n%q", got, events)
				}
			})
		}
	}
}

// TestAnyOrderEndsInTheSame lets users, controllers, the scheduler and the kubelet
// act in random orders, with deaths of Berth between: once they have calmed down,
// there is what the notebooks say, and nothing else.
func TestAnyOrderEndsInTheSame(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 5))
			w := newWorld(t)
			w.must(w.bare.Create(t.Context(), w.node(4)))
			w.gpus = 4
			last := map[string]*kubeflow.Notebook{}
			for range 60 {
				switch chance.IntN(8) {
				case 0, 1:
					nb := asking([]string{"a", "b"}[chance.IntN(2)], chance.IntN(3))
					if chance.IntN(3) == 0 {
						nb.Annotations = map[string]string{api.AnnotationStopped: "x"}
					}
					if chance.IntN(3) == 0 {
						nb.Labels = map[string]string{"team": fmt.Sprint(chance.IntN(2))}
					}
					w.apply(nb)
					last[nb.Name] = nb
				case 2:
					w.restart()
				case 3:
					w.sets()
				case 4:
					w.schedule()
				case 5:
					w.run()
				default:
					w.reconcile()
				}
			}
			w.settle()
			for name, nb := range last {
				w.check(name, nb)
			}
		})
	}
}

// check compares what is there with what a notebook says.
func (w *world) check(name string, nb *kubeflow.Notebook) {
	w.t.Helper()
	_, stopped := nb.Annotations[api.AnnotationStopped]
	var sets appsv1.StatefulSetList
	var pods corev1.PodList
	w.must(w.bare.List(w.t.Context(), &sets))
	w.must(w.bare.List(w.t.Context(), &pods))
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Labels[api.LabelNotebook] != name })
	got := reason(w.get(name))
	if stopped {
		if len(pods.Items) != 0 || got != rules.Stopped {
			w.t.Errorf("%s is stopped, and has %d pods and reason %s", name, len(pods.Items), got)
		}
		return
	}
	if len(pods.Items) != 1 {
		w.t.Fatalf("%s has %d pods", name, len(pods.Items))
	}
	pod := &pods.Items[0]
	want := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}
	for i := range sets.Items {
		if s := &sets.Items[i]; s.Name == name {
			want.Spec = s.Spec.Template.Spec
			if s.Spec.Template.Labels["team"] != nb.Labels["team"] {
				w.t.Errorf("the StatefulSet of %s has labels %v, want those of %v", name, s.Spec.Template.Labels, nb.Labels)
			}
		}
	}
	if gpusOf(pod) != gpusOf(want) {
		w.t.Errorf("the pod of %s has %d GPUs, and its StatefulSet says %d", name, gpusOf(pod), gpusOf(want))
	}
	if got != rules.Ready {
		w.t.Errorf("Ready's reason of %s is %s; four GPUs are enough for both", name, got)
	}
}
