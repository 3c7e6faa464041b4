package notebook_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/notebook"
	"berth.dev/berth/core/explain"
)

const (
	namespace = "team-a"
	nodeName  = "n1"
)

// errBroken is a write that the world breaks.
var errBroken = errors.New("connection reset")

// world is a cluster in memory: the API server is controller-runtime's fake, with
// generations, UIDs and preconditions added; the controller of StatefulSets, the
// scheduler and the kubelet are methods. Time moves when it is told to.
type world struct {
	t      *testing.T
	api    client.WithWatch // as the reconciler sees it
	bare   client.WithWatch // without counting
	r      *notebook.Reconciler
	o      notebook.Options
	now    time.Time
	uids   int
	writes []string // by the reconciler, "create StatefulSet" and so on
	born   []string // UIDs of pods, in order

	kinds  *kinds
	lagged client.WithWatch // see lag; nil is none
	forbid string           // the kind of which no write is allowed; "" is none

	restarted func() // what restart does instead; nil is nothing else
	eachPass  func() // before each pass of settle; nil is nothing

	gpus     int64  // on the one node; 0 is that there is no node with any
	refuse   string // how the making of a pod is refused; "" is not
	breakAt  int    // the write that fails, from 1; 0 is none
	breakHow breakage
}

// breakage is how a write fails.
type breakage int

const (
	lost    breakage = iota // it never arrives
	unheard                 // it is done, and the answer is lost
)

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), kubeflow.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), gpus: 8, o: notebook.Options{FSGroup: true}, kinds: &kinds{RESTMapper: meta.NewDefaultRESTMapper(nil)}}
	w.bare = fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(w.kinds).WithObjects(objects...).
		WithStatusSubresource(&kubeflow.Notebook{}).WithIndex(&corev1.Event{}, "berth.object", notebook.EventObject).Build()
	w.api = interceptor.NewClient(w.bare, interceptor.Funcs{
		Create: w.create, Update: w.update, Delete: w.remove, Patch: w.patch, SubResourcePatch: w.patchStatus,
	})
	w.restart()
	return w
}

// restart is a new process: nothing is left in memory.
func (w *world) restart() {
	if w.restarted != nil {
		w.restarted()
		return
	}
	w.r = notebook.NewReconciler(w.api, w.api, w.o, w.clock)
}

func (w *world) clock() time.Time { return w.now }

func (w *world) uid() types.UID {
	w.uids++
	return types.UID(fmt.Sprint("uid-", w.uids))
}

// reconcile is one pass over every notebook, and what it wrote.
func (w *world) reconcile() []string {
	w.t.Helper()
	before := len(w.writes)
	if err := w.pass(); err != nil {
		w.t.Fatalf("reconcile: %v", err)
	}
	return w.writes[before:]
}

// pass is reconcile, with the error.
func (w *world) pass() error {
	var list kubeflow.NotebookList
	w.must(w.bare.List(w.t.Context(), &list))
	var errs []error
	for i := range list.Items {
		_, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// again is a pass over one notebook, and after how long it is to be looked at again.
func (w *world) again(name string) time.Duration {
	w.t.Helper()
	got, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	w.must(err)
	return got.RequeueAfter
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// sets is the controller of StatefulSets: one look.
func (w *world) sets() {
	w.t.Helper()
	var list appsv1.StatefulSetList
	w.must(w.bare.List(w.t.Context(), &list))
	for i := range list.Items {
		s := &list.Items[i]
		pod := &corev1.Pod{}
		err := w.bare.Get(w.t.Context(), types.NamespacedName{Namespace: s.Namespace, Name: s.Name + "-0"}, pod)
		switch {
		case *s.Spec.Replicas == 0 && err == nil:
			w.must(w.bare.Delete(w.t.Context(), pod))
		case *s.Spec.Replicas == 1 && apierrors.IsNotFound(err) && w.refuse != "":
			w.warn("StatefulSet", s.Name, s.UID, "FailedCreate", "create Pod "+s.Name+"-0 in StatefulSet "+s.Name+" failed error: "+w.refuse)
		case *s.Spec.Replicas == 1 && apierrors.IsNotFound(err):
			w.bear(s)
		}
		if s.Status.ObservedGeneration != s.Generation {
			s.Status.ObservedGeneration = s.Generation
			w.must(w.bare.Status().Update(w.t.Context(), s))
		}
	}
}

// bear makes the pod of a StatefulSet.
func (w *world) bear(s *appsv1.StatefulSet) {
	w.t.Helper()
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name + "-0", UID: w.uid(), Labels: s.Spec.Template.Labels, Annotations: s.Spec.Template.Annotations,
			CreationTimestamp: metav1.NewTime(w.now),
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: s.Name, UID: s.UID, Controller: &yes}},
		},
		Spec:   s.Spec.Template.Spec,
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	w.must(w.bare.Create(w.t.Context(), pod))
	w.born = append(w.born, string(pod.UID))
}

// warn makes an event of type Warning.
func (w *world) warn(kind, name string, uid types.UID, reason, message string) {
	w.t.Helper()
	w.event(corev1.EventTypeWarning, kind, name, uid, reason, message)
}

// event makes an event, which is the same if it is said again, as client-go keeps it.
func (w *world) event(severity, kind, name string, uid types.UID, reason, message string) {
	w.t.Helper()
	var list corev1.EventList
	w.must(w.bare.List(w.t.Context(), &list))
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.UID == uid && e.Reason == reason && e.Message == message {
			e.LastTimestamp, e.Count = metav1.NewTime(w.now), e.Count+1
			w.must(w.bare.Update(w.t.Context(), e))
			return
		}
	}
	w.must(w.bare.Create(w.t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(name, ".", w.uid()), UID: w.uid()},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name, UID: uid},
		Type:           severity, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(w.now), Count: 1,
	}))
}

// schedule binds every pod that fits to the node, the oldest first, and says of
// the others that they have none.
func (w *world) schedule() {
	w.t.Helper()
	var list corev1.PodList
	w.must(w.bare.List(w.t.Context(), &list))
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	free := w.gpus
	for i := range list.Items {
		if list.Items[i].Spec.NodeName != "" {
			free -= gpusOf(&list.Items[i])
		}
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.NodeName != "" {
			continue
		}
		if n := gpusOf(pod); n > free {
			w.condition(pod, corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: no victims.")
			w.must(w.bare.Status().Update(w.t.Context(), pod))
			continue
		}
		free -= gpusOf(pod)
		pod.Spec.NodeName = nodeName
		w.must(w.bare.Update(w.t.Context(), pod))
		w.condition(pod, corev1.PodScheduled, corev1.ConditionTrue, "", "")
		w.must(w.bare.Status().Update(w.t.Context(), pod))
	}
}

func gpusOf(pod *corev1.Pod) int64 {
	q := pod.Spec.Containers[0].Resources.Limits[api.ResourceGPU]
	return q.Value()
}

// condition sets a condition of a pod, as of now if its status changes.
func (w *world) condition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) {
	c := corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(w.now)}
	for i := range pod.Status.Conditions {
		if old := &pod.Status.Conditions[i]; old.Type == kind {
			if old.Status == status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			*old = c
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

// run makes every pod that has a node Ready.
func (w *world) run() {
	w.t.Helper()
	var list corev1.PodList
	w.must(w.bare.List(w.t.Context(), &list))
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodRunning {
			continue
		}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}},
		}}
		w.condition(pod, corev1.PodReadyToStartContainers, corev1.ConditionTrue, "", "")
		w.condition(pod, corev1.PodReady, corev1.ConditionTrue, "", "")
		w.must(w.bare.Status().Update(w.t.Context(), pod))
	}
}

// settle lets everybody work until nobody writes any more.
func (w *world) settle() {
	w.t.Helper()
	quiet := 0
	for range 40 {
		before := len(w.writes)
		if w.eachPass != nil {
			w.eachPass()
		}
		err := w.pass()
		w.sets()
		w.schedule()
		w.run()
		w.now = w.now.Add(time.Second)
		if quiet++; err != nil || len(w.writes) > before {
			quiet = 0
		}
		if quiet == 3 {
			return
		}
	}
	w.t.Fatalf("not quiet after 40 passes; writes: %q", w.writes)
}

// node is the one node of the world.
func (w *world) node(gpus int64) *corev1.Node {
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		corev1.ResourcePods: resource.MustParse("110"), api.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{
			api.LabelProduct: "NVIDIA-A100-SXM4-40GB", api.LabelCount: fmt.Sprint(gpus), "nvidia.com/cuda.runtime-version.full": "12.2",
		}},
		Status: corev1.NodeStatus{Capacity: list, Allocatable: list, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// apply is kubectl apply of a notebook: its spec, labels and annotations.
func (w *world) apply(nb *kubeflow.Notebook) {
	w.t.Helper()
	has := &kubeflow.Notebook{}
	err := w.bare.Get(w.t.Context(), client.ObjectKeyFromObject(nb), has)
	if apierrors.IsNotFound(err) {
		nb = nb.DeepCopy()
		nb.UID, nb.CreationTimestamp = w.uid(), metav1.NewTime(w.now)
		w.must(w.bare.Create(w.t.Context(), nb))
		return
	}
	w.must(err)
	has.Spec, has.Labels, has.Annotations = nb.Spec, maps.Clone(nb.Labels), maps.Clone(nb.Annotations)
	w.must(w.bare.Update(w.t.Context(), has))
}

// notebookOf makes a Notebook of a pod's spec.
func notebookOf(name, spec string) *kubeflow.Notebook {
	nb := &kubeflow.Notebook{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	nb.Spec.Template.Spec.Raw = []byte(spec)
	return nb
}

// asking is a Notebook with one container of its name and some GPUs.
func asking(name string, gpus int) *kubeflow.Notebook {
	limits := ""
	if gpus > 0 {
		limits = fmt.Sprintf(`,"resources":{"limits":{"nvidia.com/gpu":"%d"}}`, gpus)
	}
	return notebookOf(name, fmt.Sprintf(`{"containers":[{"name":%q,"image":"jupyter/scipy-notebook:2024-10-07"%s}]}`, name, limits))
}

// get reads a notebook.
func (w *world) get(name string) *kubeflow.Notebook {
	w.t.Helper()
	nb := &kubeflow.Notebook{}
	w.must(w.bare.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, nb))
	return nb
}

// condition of a notebook as text: "False Queued: message".
func said(nb *kubeflow.Notebook, kind string) string {
	c := nb.Status.Condition(kind)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// reason is Ready's.
func reason(nb *kubeflow.Notebook) explain.Reason {
	if c := nb.Status.Condition(kubeflow.ConditionReady); c != nil {
		return explain.Reason(c.Reason)
	}
	return ""
}

// told lists the events about a notebook: "Normal Bound: message", sorted.
func (w *world) told(name string) []string {
	w.t.Helper()
	var list corev1.EventList
	w.must(w.bare.List(w.t.Context(), &list))
	var out []string
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.Kind == kubeflow.Kind && e.InvolvedObject.Name == name {
			out = append(out, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
		}
	}
	slices.Sort(out)
	return out
}

// alike reports whether two specs of a StatefulSet are equal.
func alike(a, b appsv1.StatefulSetSpec) bool { return equality.Semantic.DeepEqual(a, b) }
