package notebook_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/explain"
	"berth.dev/berth/test/soak"
)

// story is a piece of the life of notebooks.
type story struct {
	name  string
	gpus  int64          // that there are
	begin func(w *world) // what is there before Berth; nil is nothing
	steps []func(w *world)
	pods  int    // that are made in it
	tells string // how an event of it begins, without which it is another story
}

// stories are what may be going on when Berth is killed. After each step everybody
// works until nobody writes any more.
var stories = []story{
	{
		// One pod, one for the change, one for the start.
		name: "made, changed, stopped and started", pods: 3, gpus: 8, tells: "Normal Started: ",
		steps: []func(w *world){
			func(w *world) { w.apply(asking("nb", 1)) },
			func(w *world) { w.apply(asking("nb", 2)) },
			func(w *world) {
				nb := asking("nb", 2)
				nb.Annotations = map[string]string{api.AnnotationStopped: "2026-11-21T10:00:00Z"}
				w.apply(nb)
			},
			func(w *world) { w.apply(asking("nb", 2)) },
		},
	},
	{
		name: "refused by a quota, until that has room", pods: 1, gpus: 8, tells: "Warning Quota: ",
		steps: []func(w *world){
			func(w *world) {
				w.refuse = `pods "nb-0" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2`
				w.apply(asking("nb", 1))
			},
			func(w *world) { w.refuse = "" },
		},
	},
	{
		// Two pods, and one for the change.
		name: "changed to what has no room, until another goes", pods: 3, gpus: 2, tells: "Warning ChangeWaits: ",
		steps: []func(w *world){
			func(w *world) {
				w.apply(asking("nb", 1))
				w.apply(asking("other", 1))
			},
			func(w *world) { w.apply(asking("nb", 2)) },
			func(w *world) {
				w.must(w.bare.Delete(w.t.Context(), w.get("other")))
				w.collect()
				w.now = w.now.Add(time.Minute)
			},
		},
	},
	{
		// The one that runs all the time, and one for the change.
		name: "taken over from Kubeflow's controller, and changed", pods: 2, gpus: 8, tells: "Normal Restarting: ",
		begin: func(w *world) {
			w.apply(asking("nb", 1))
			w.settle()
			w.madeByKubeflow("nb")
			w.restart()
		},
		steps: []func(w *world){
			func(*world) {},
			func(w *world) { w.apply(asking("nb", 2)) },
		},
	},
	{
		// One that holds the GPU, one that waits for it, and one of the other's name.
		name: "deleted while it waits in line, and made anew before its remains are gone", pods: 3, gpus: 1, tells: "Normal Queued: ",
		steps: []func(w *world){
			func(w *world) {
				w.apply(asking("nb", 1))
				w.now = w.now.Add(time.Second)
			},
			func(w *world) { w.apply(asking("other", 1)) },
			func(w *world) {
				w.must(w.bare.Delete(w.t.Context(), w.get("other")))
				w.apply(asking("other", 0))
			},
			func(w *world) { w.collect() },
		},
	},
}

// play lets a story happen, of which one write of Berth is broken if at is not 0. It
// goes on after the failure with a new process.
func (w *world) play(s *story, at int, how breakage) {
	w.t.Helper()
	w.gpus = s.gpus
	w.must(w.bare.Create(w.t.Context(), w.node(s.gpus)))
	if s.begin != nil {
		s.begin(w)
	}
	w.writes, w.breakAt, w.breakHow = nil, at, how
	for _, step := range s.steps {
		step(w)
		passes := 0
		for quiet := 0; quiet < 3; quiet++ {
			before := len(w.writes)
			if err := w.pass(); err != nil {
				w.restart()
			}
			w.sets()
			w.schedule()
			w.run()
			w.now = w.now.Add(time.Second)
			if len(w.writes) > before {
				quiet = 0
			}
			if passes++; passes > 60 {
				w.t.Fatalf("not quiet after %d passes; writes: %q", passes, w.writes)
			}
		}
	}
}

// outcome is what users see in the end: conditions and events of each notebook.
func (w *world) outcome() map[string][]string {
	w.t.Helper()
	out := map[string][]string{}
	var list kubeflow.NotebookList
	w.must(w.bare.List(w.t.Context(), &list))
	for i := range list.Items {
		nb := &list.Items[i]
		out[nb.Name] = append([]string{said(nb, kubeflow.ConditionReady), said(nb, kubeflow.ConditionGPUQueued), nb.Status.GPUs}, w.told(nb.Name)...)
	}
	return out
}

// TestADeathAtAnyWriteChangesNothing breaks each write of each story in turn, before
// or after it is done, in a soak both, and starts a new process: the story ends the
// same, with as many pods and with the same events.
func TestADeathAtAnyWriteChangesNothing(t *testing.T) {
	for i := range stories {
		s := &stories[i]
		t.Run(s.name, func(t *testing.T) {
			calm := newWorld(t)
			calm.play(s, 0, lost)
			want := calm.outcome()
			if nb := want["nb"]; nb[0] != "True Ready: on node n1" || len(calm.born) != s.pods {
				t.Fatalf("undisturbed, the story ends with %q after %d pods; want it Ready after %d", nb, len(calm.born), s.pods)
			}
			if told := slices.Concat(slices.Collect(maps.Values(want))...); !slices.ContainsFunc(told, func(e string) bool { return strings.HasPrefix(e, s.tells) }) {
				t.Fatalf("undisturbed, the story ends with %q; want %q among it", told, s.tells)
			}
			for i, how := range []breakage{lost, unheard} {
				for at := soak.Pick(1+i, 1); at <= len(calm.writes); at += soak.Pick(2, 1) {
					t.Run(fmt.Sprint(map[breakage]string{lost: "lost ", unheard: "unheard "}[how], at, " ", calm.writes[at-1]), func(t *testing.T) {
						w := newWorld(t)
						w.play(s, at, how)
						if diff := cmp.Diff(want, w.outcome()); diff != "" {
							t.Errorf("it ends in another way (-undisturbed +broken):\n%s", diff)
						}
						if len(w.born) != s.pods {
							t.Errorf("%d pods were made, want %d", len(w.born), s.pods)
						}
					})
				}
			}
		})
	}
}

// madeByKubeflow makes the StatefulSet and the pod of a notebook as Kubeflow's
// controller makes them: without labels and marks.
func (w *world) madeByKubeflow(name string) {
	w.t.Helper()
	var s appsv1.StatefulSet
	w.must(w.bare.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, &s))
	s.Labels, s.Annotations = nil, nil
	delete(s.Spec.Template.Annotations, api.AnnotationNotebookSpec)
	w.must(w.bare.Update(w.t.Context(), &s))
	var pod corev1.Pod
	w.must(w.bare.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: name + "-0"}, &pod))
	delete(pod.Annotations, api.AnnotationNotebookSpec)
	w.must(w.bare.Update(w.t.Context(), &pod))
}

// collect is the garbage collector: it deletes what belongs to an object that is gone.
func (w *world) collect() {
	w.t.Helper()
	there := map[types.UID]bool{}
	for _, list := range []client.ObjectList{&kubeflow.NotebookList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{}, &corev1.PodList{}} {
		w.must(w.bare.List(w.t.Context(), list))
		w.must(meta.EachListItem(list, func(o runtime.Object) error {
			obj := o.(client.Object)
			if ref := metav1.GetControllerOf(obj); ref != nil && !there[ref.UID] {
				return w.bare.Delete(w.t.Context(), obj)
			}
			there[obj.GetUID()] = true
			return nil
		}))
	}
}

// TestAnyOrderEndsInTheSame lets users, controllers, the scheduler and the kubelet
// act in random orders, with deaths of Berth between: once they have calmed down,
// there is what the notebooks say, and nothing else.
func TestAnyOrderEndsInTheSame(t *testing.T) {
	for seed := range soak.Pick[uint64](4, 12) {
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
		if len(pods.Items) != 0 || got != explain.Stopped {
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
	if got != explain.Ready {
		w.t.Errorf("Ready's reason of %s is %s; four GPUs are enough for both", name, got)
	}
}
