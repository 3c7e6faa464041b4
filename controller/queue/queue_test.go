package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/controller/queue"
	waits "berth.dev/berth/core/queue"
	"berth.dev/berth/kube/queues"
)

var epoch = time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)

// stage is a cluster of some Queues, with what the controller has written and told.
type stage struct {
	*testing.T
	client  client.Client
	room    *queue.Room
	count   *queue.Count
	now     time.Time
	passed  time.Time // when the last pass began
	pods    map[string]*corev1.Pod
	writes  int           // of statuses
	takes   time.Duration // to write one
	evicted []string
	blocked map[string]bool // pods that a budget keeps
	events  []string
	refuses error // of writes of admission policies; nil is that they are done
}

func newStage(t *testing.T, list ...*v1alpha1.Queue) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, kubeflow.AddToScheme, v1alpha1.AddToScheme, policyv1.AddToScheme, admissionv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &stage{T: t, now: epoch, pods: map[string]*corev1.Pod{}, blocked: map[string]bool{}, room: queue.NewRoom()}
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Queue{}).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if s.refuses != nil && o.GetName() == queues.DefaultClassesName {
				return s.refuses
			}
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			s.writes++
			s.now = s.now.Add(s.takes)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, sub string, o, by client.Object, _ ...client.SubResourceCreateOption) error {
			e := by.(*policyv1.Eviction)
			switch {
			case sub != "eviction" || e.DeleteOptions.Preconditions == nil:
				t.Errorf("%s of %s without preconditions", sub, o.GetName())
			case s.blocked[o.GetName()]:
				return apierrors.NewTooManyRequests("the budget says no", 0)
			case len(e.DeleteOptions.DryRun) == 0:
				s.evicted = append(s.evicted, o.GetName())
			}
			return nil
		},
	})
	for i, q := range list {
		q.UID, q.Generation = types.UID("q-"+q.Name), 1
		q.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(i) * time.Second))
		b = b.WithObjects(q)
	}
	s.client = b.Build()
	s.count = queue.NewCount(s.client, s, s.room, s.clock)
	return s
}

// Eventf implements events.EventRecorder.
func (s *stage) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	s.events = append(s.events, reason+" "+about.(client.Object).GetName()+": "+fmt.Sprintf(note, args...))
}

// clock is what the controller reads.
func (s *stage) clock() time.Time { return s.now }

// pass lets time go by, and has the controller do a pass.
func (s *stage) pass(d time.Duration) time.Duration {
	s.Helper()
	s.now = s.now.Add(d)
	s.passed = s.now
	var list v1alpha1.QueueList
	if err := s.client.List(context.Background(), &list); err != nil {
		s.Fatal(err)
	}
	return s.count.Pass(context.Background(), list.Items, s.now)
}

func (s *stage) status(name string) *v1alpha1.QueueStatus {
	s.Helper()
	var q v1alpha1.Queue
	if err := s.client.Get(context.Background(), client.ObjectKey{Name: name}, &q); err != nil {
		s.Fatal(err)
	}
	return &q.Status
}

// change changes the spec of a Queue, as an administrator does.
func (s *stage) change(name string, edit func(*v1alpha1.QueueSpec)) {
	s.Helper()
	var q v1alpha1.Queue
	if err := s.client.Get(context.Background(), client.ObjectKey{Name: name}, &q); err != nil {
		s.Fatal(err)
	}
	edit(&q.Spec)
	q.Generation++
	if err := s.client.Update(context.Background(), &q); err != nil {
		s.Fatal(err)
	}
}

// pod puts a pod with one GPU there, on a node or waiting for quota.
func (s *stage) pod(namespace, name, node string, edits ...func(*corev1.Pod)) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("p-" + name), CreationTimestamp: metav1.NewTime(s.now)}}
	p.Spec.NodeName = node
	one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: one, Limits: one}}}
	if node != "" {
		start := metav1.NewTime(s.now)
		p.Status.StartTime = &start
	} else {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: waits.Quota.Mark("queue red has no quota left"),
		}}
	}
	for _, edit := range edits {
		edit(p)
	}
	s.pods[name] = p
	s.count.Set(string(p.UID), p)
}

func (s *stage) gone(name string) { s.count.Set("p-"+name, (*corev1.Pod)(nil)) }

// gang makes a pod one of a gang.
func gang(name string, least int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{api.AnnotationGang: name, api.AnnotationGangMinCount: fmt.Sprint(least)}
	}
}

// notebook makes a pod that of a notebook.
func notebook(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		yes := true
		p.Labels = map[string]string{api.LabelNotebook: name}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name, Controller: &yes}}
	}
}

func queueOf(name, parent, nominal string, edits ...func(*v1alpha1.QueueSpec)) *v1alpha1.Queue {
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}
	q.Spec.Parent, q.Spec.Namespaces = parent, &v1alpha1.QueueNamespaces{Names: []string{name}}
	if nominal != "" {
		q.Spec.Quotas = []v1alpha1.QueueQuota{{GPUs: v1alpha1.GPUsAll, Nominal: resource.MustParse(nominal)}}
	}
	for _, edit := range edits {
		edit(&q.Spec)
	}
	return q
}

func org() []*v1alpha1.Queue {
	return []*v1alpha1.Queue{queueOf("org", "", "4"), queueOf("red", "org", "2"), queueOf("blue", "org", "2")}
}

// row is the status of a queue as a table shows it.
func row(st *v1alpha1.QueueStatus) string {
	return fmt.Sprintf("%s %s %s %s %d", st.Nominal, st.Used, st.Borrowed, st.Lent, st.Waiting)
}

func TestTheStatusIsWhatIsHeld(t *testing.T) {
	s := newStage(t, org()...)
	want := func(rows map[string]string) {
		t.Helper()
		for name, want := range rows {
			if got := row(s.status(name)); got != want {
				t.Errorf("queue %s shows %q, want %q", name, got, want)
			}
		}
	}
	s.pass(time.Second)
	want(map[string]string{"org": "4 0 0 0 0", "red": "2 0 0 0 0"})
	for _, name := range []string{"a", "b", "c"} {
		s.pod("red", name, "node-1")
	}
	s.pod("red", "w1", "", gang("train", 2))
	s.pod("red", "w2", "", gang("train", 2))
	s.pod("red", "w3", "")
	s.pass(time.Second)
	want(map[string]string{"org": "4 3 0 0 2", "red": "2 3 1 0 2", "blue": "2 0 0 1 0"})
	s.gone("w3")
	s.gone("c")
	s.pass(time.Second)
	want(map[string]string{"org": "4 2 0 0 1", "red": "2 2 0 0 1", "blue": "2 0 0 0 0"})
	if st := s.status("red"); st.ObservedGeneration != 1 || len(st.Resources) != 1 || st.Resources[0].GPUs != v1alpha1.GPUsAll {
		t.Errorf("the status is %+v", st)
	}
}

func TestAQueueSaysWhenItBeginsToBorrowAndWhenItHasReturnedAll(t *testing.T) {
	s := newStage(t, org()...)
	s.pass(time.Second)
	for k := range 4 {
		s.pod("red", fmt.Sprint("p", k), "node-1")
		s.pass(time.Second)
	}
	s.gone("p3")
	s.pass(time.Second)
	if want := []string{"Borrows red: the queue borrows, at first 1, from the nominal quota of others"}; !slices.Equal(s.events, want) {
		t.Fatalf("events %q, want %q", s.events, want)
	}
	s.gone("p2")
	s.pass(time.Second)
	if last := s.events[len(s.events)-1]; len(s.events) != 2 || last != "BorrowsNone red: the queue borrows nothing any longer" {
		t.Errorf("events %q", s.events)
	}
}

func TestAStatusIsWrittenWhenItChanges(t *testing.T) {
	s := newStage(t, org()...)
	s.pod("red", "a", "node-1")
	s.pass(time.Second)
	s.pass(30 * time.Second)
	first := s.writes
	if first != 3 {
		t.Fatalf("%d writes for three queues, want one each", first)
	}
	for range 50 {
		s.pass(time.Second) // two minutes' worth of use is written at most once a minute
	}
	for range 60 {
		s.pass(time.Second)
	}
	if n := s.writes - first; n > 4 {
		t.Errorf("%d writes in less than two minutes while nothing changes but use, want at most one a minute of two queues", n)
	}
	if wait := s.pass(time.Second); wait <= 0 || wait > time.Minute {
		t.Errorf("the next pass is in %v, want within a minute, for use", wait)
	}
}

func TestUseGoesOnAfterARestart(t *testing.T) {
	s := newStage(t, org()...)
	s.pod("red", "a", "node-1")
	s.pass(0)
	s.pass(10 * time.Minute)
	before := s.status("red").Usage
	if len(before) != 1 || before[0].User != "" || before[0].GPUSeconds < 590 || before[0].GPUSeconds > 600 {
		t.Fatalf("after ten minutes of one GPU the use is %+v", before)
	}
	s.count = queue.NewCount(s.client, s, s.room, s.clock)
	s.count.Set("p-a", s.pods["a"])
	s.pass(10 * time.Minute)
	s.pass(2 * time.Minute)
	if after := s.status("red").Usage; after[0].GPUSeconds < 1300 || after[0].GPUSeconds > 1320 {
		t.Errorf("after 22 minutes with a restart the use is %+v, want about 1320 s", after)
	}
}

func TestUseIsCountedByUserWhereAQueueAsksForIt(t *testing.T) {
	s := newStage(t, queueOf("red", "", "4"))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "train", UID: "j-1", Annotations: map[string]string{api.AnnotationUser: "ann"}}}
	if err := s.client.Create(context.Background(), job); err != nil {
		t.Fatal(err)
	}
	s.pod("red", "a", "node-1", func(p *corev1.Pod) {
		p.Annotations = map[string]string{api.AnnotationUserOf: "j-1"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "j-1"}}
	})
	s.pod("red", "b", "node-1", func(p *corev1.Pod) { p.Annotations = map[string]string{api.AnnotationUser: "bob"} })
	s.pass(0)
	s.pass(10 * time.Minute)
	users := func() (out []string) {
		for _, u := range s.status("red").Usage {
			out = append(out, u.User)
		}
		return out
	}
	if got := users(); !slices.Equal(got, []string{""}) {
		t.Errorf("no queue counts by user, and the use is of %q", got)
	}
	s.change("red", func(q *v1alpha1.QueueSpec) { q.Order = v1alpha1.OrderFair })
	s.pass(time.Second)
	s.pass(10 * time.Minute)
	if got := users(); !slices.Contains(got, "ann") || !slices.Contains(got, "bob") {
		t.Errorf("the use is of %q, want ann, by the Job of the pod, and bob", got)
	}
}

func TestConditions(t *testing.T) {
	s := newStage(t, org()...)
	s.pass(time.Second)
	says := func(name, kind string) string {
		c := meta.FindStatusCondition(s.status(name).Conditions, kind)
		return string(c.Status) + " " + c.Message
	}
	if v, a := says("red", v1alpha1.QueueValid), says("red", v1alpha1.QueueActive); v != "True " || a != "True " {
		t.Errorf("a good queue is Valid %q and Active %q", v, a)
	}
	s.change("org", func(q *v1alpha1.QueueSpec) { q.Stop = v1alpha1.StopHold })
	s.change("blue", func(q *v1alpha1.QueueSpec) { q.Parent = "none"; q.Quotas[0].GPUs = "NVIDIA-H100-80GB-HBM33" })
	s.pass(time.Second)
	if a := says("red", v1alpha1.QueueActive); a != "False spec.stop of queue org is Hold" {
		t.Errorf("below a queue that is stopped, Active is %q", a)
	}
	v := says("blue", v1alpha1.QueueValid)
	for _, part := range []string{`False `, `spec.parent: there is no Queue "none"`, `did you mean NVIDIA-H100-80GB-HBM3?`} {
		if !strings.Contains(v, part) {
			t.Errorf("Valid is %q, want %q in it", v, part)
		}
	}
	if a := says("blue", v1alpha1.QueueActive); !strings.Contains(a, "queue blue admits no workloads until its condition Valid is True") {
		t.Errorf("Active is %q", a)
	}
}

func TestTimeThatIsOverEndsAWorkload(t *testing.T) {
	s := newStage(t, queueOf("red", "", "4", func(q *v1alpha1.QueueSpec) { q.MaxRunTime = "1h"; q.MinRunTime = "1m" }))
	s.pod("red", "g-a", "node-1", gang("train", 2))
	s.pod("red", "g-b", "node-1", gang("train", 2))
	s.pass(time.Second)
	s.pass(50 * time.Minute)
	if len(s.events) > 0 {
		t.Fatalf("long before the end: %q", s.events)
	}
	s.pass(4 * time.Minute)
	s.pass(time.Minute)
	if len(s.events) != 2 || !strings.Contains(s.events[0], "MaxRunTimeWarning g-a: the pod is evicted at 2026-11-24T10:00:00Z: workloads of queue red run for 1h0m0s at most") {
		t.Fatalf("six minutes before the end: %q, want one warning for each pod", s.events)
	}
	s.blocked["g-b"] = true
	s.pass(5 * time.Minute)
	if len(s.evicted) > 0 || !strings.HasPrefix(s.events[len(s.events)-1], "EvictionBlocked") {
		t.Fatalf("a budget keeps one of the gang: evicted %q, events %q", s.evicted, s.events)
	}
	told := len(s.events)
	s.pass(10 * time.Second)
	if len(s.events) != told {
		t.Errorf("the event is made again: %q", s.events[told:])
	}
	s.blocked = nil
	s.pass(10 * time.Second)
	if slices.Sort(s.evicted); !slices.Equal(s.evicted, []string{"g-a", "g-b"}) {
		t.Errorf("evicted are %q, want the whole gang", s.evicted)
	}
	if n := testutil.ToFloat64(queue.EvictedTotal.WithLabelValues("red", "MaxRunTime")); n != 2 {
		t.Errorf("%v evictions are counted, want 2", n)
	}
	s.pass(time.Second)
	if len(s.evicted) != 2 {
		t.Errorf("evicted are %q: again, before the first can have ended", s.evicted)
	}
}

func TestADrainedQueueStopsNotebooksAndEvictsPods(t *testing.T) {
	s := newStage(t, queueOf("red", "", "4", func(q *v1alpha1.QueueSpec) { q.Stop = v1alpha1.StopHoldAndDrain }))
	nb := &kubeflow.Notebook{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "nb"}}
	if err := s.client.Create(context.Background(), nb); err != nil {
		t.Fatal(err)
	}
	s.pod("red", "nb-0", "node-1", notebook("nb"))
	s.pod("red", "orphan-0", "node-1", notebook("orphan"))
	s.pod("red", "job", "node-1")
	s.pass(time.Second)
	if slices.Sort(s.evicted); !slices.Equal(s.evicted, []string{"job", "orphan-0"}) {
		t.Errorf("evicted are %q, want the pod, and the one whose notebook is gone", s.evicted)
	}
	if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(nb), nb); err != nil {
		t.Fatal(err)
	}
	if a := nb.Annotations; a[api.AnnotationStopped] == "" || a[api.AnnotationNotebookStoppedFor] != "spec.stop of queue red is HoldAndDrain" {
		t.Errorf("the annotations of the notebook are %v, want it stopped, and why", a)
	}
}

func TestRoom(t *testing.T) {
	s := newStage(t, org()...)
	s.change("red", func(q *v1alpha1.QueueSpec) { q.IdleNotebooks = v1alpha1.IdleGiveWay })
	for _, name := range []string{"nb1", "nb2"} {
		s.pod("red", name, "node-1", notebook(name))
	}
	s.pod("blue", "b1", "node-1")
	s.pod("blue", "b2", "node-1")
	idle := []*corev1.Pod{s.pods["nb1"], s.pods["nb2"]}
	none := func(*corev1.Pod) bool { return false }
	if got := s.room.Ways(idle, none); got != nil || s.room.Stands("x") != queue.Unknown || s.room.GivesWay(idle[0]) {
		t.Error("a Room answers before anything is counted")
	}
	s.pass(time.Second)
	select {
	case <-s.room.Changed():
	default:
		t.Error("Changed says nothing after a pass")
	}
	if !s.room.GivesWay(s.pods["nb1"]) || s.room.GivesWay(s.pods["b1"]) {
		t.Error("notebooks of red give way, and those of blue do not")
	}
	if got := s.room.Ways(idle, none); len(got) != 0 {
		t.Errorf("no workload waits, and %v give way", got)
	}
	s.pod("red", "w", "")
	s.pass(time.Second)
	ways := s.room.Ways(idle, none)
	if w := ways["p-nb1"]; len(ways) != 1 || w.Workload != "p-w" || w.Why != "a workload of queue red waits for 1 GPU" {
		t.Errorf("the ways are %v", ways)
	}
	if got := s.room.Ways(idle, func(p *corev1.Pod) bool { return p.Name == "w" }); len(got) != 0 {
		t.Errorf("a pod that does not count is given way to: %v", got)
	}
	if s.room.Stands("p-w") != queue.Waits || s.room.Stands("p-nb1") != queue.Runs || s.room.Stands("p-gone") != queue.Gone {
		t.Error("Stands is wrong")
	}
}
