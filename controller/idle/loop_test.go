package idle_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/idle"
	modes "berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/idle"
)

// rows: NB-51 NB-54

const ns = "kubeflow-user-example-com"

// errBroken is the answer to a write that the stage breaks.
var errBroken = errors.New("connection reset")

var start = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// stage is a cluster of one namespace, a clock, and what notebooks answer.
type stage struct {
	t       *testing.T
	client  client.Client
	loop    idle.Loop
	options idle.Options
	writes  int
	breakAt int  // the write that fails, from 1; 0 is none
	done    bool // it is done, and the answer is lost
	mute    bool // events are lost
	events  []string

	mu       sync.Mutex
	now      time.Time
	kernel   map[string]string // state of the one kernel, by notebook; "" is that nobody answers
	activity map[string]time.Time
	gpu      float64
	gauged   rules.Result
	asked    int
}

func newStage(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, kubeflow.AddToScheme, kubeflow.AddTrainingToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &stage{t: t, now: start, kernel: map[string]string{}, activity: map[string]time.Time{}, gauged: rules.OK}
	count := interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		s.mu.Lock()
		s.writes++
		broken := s.writes == s.breakAt
		s.mu.Unlock()
		if broken && !s.done {
			return errBroken
		}
		err := c.Patch(ctx, o, p, opts...)
		if broken {
			return errBroken
		}
		return err
	}}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(count).Build()
	policy := rules.Off()
	policy.Never, policy.After = false, time.Hour
	s.options = idle.Options{Default: policy, Prober: s, Now: s.time}
	s.restart()
	return s
}

// restart makes a new process of the loop.
func (s *stage) restart() { s.loop = idle.NewLoop(s.client, s, s.options) }

func (s *stage) time() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Eventf implements events.EventRecorder.
func (s *stage) Eventf(about, _ runtime.Object, kind, reason, _, note string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mute {
		s.events = append(s.events, reason+": "+fmt.Sprintf(note, args...))
	}
}

// Server implements idle.Prober.
func (s *stage) Server(_ context.Context, target idle.Target) rules.Server {
	name := target.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	switch state := s.kernel[name]; state {
	case "":
		return rules.Server{At: s.now, Result: rules.Failed, Said: "nobody answers"}
	case "none":
		return rules.Server{At: s.now, Result: rules.Absent, Said: "it is no Jupyter"}
	default:
		return rules.Server{At: s.now, Result: rules.OK, Kernels: []rules.Kernel{{State: state, Activity: s.activity[name]}}}
	}
}

// CPU implements idle.Prober.
func (s *stage) CPU(context.Context, string, string) rules.CPU {
	return rules.CPU{Result: rules.Absent}
}

// GPUs implements idle.Prober.
func (s *stage) GPUs(context.Context, *corev1.Pod) rules.GPUs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return rules.GPUs{At: s.now, Result: s.gauged, Devices: []rules.Device{{UUID: "GPU-1", Utilization: s.gpu, MemoryBytes: 3 << 30}}}
}

// pass lets a time go by, one minute after the other, with a pass after each.
func (s *stage) pass(d time.Duration) {
	s.t.Helper()
	for end := s.time().Add(d); s.time().Before(end); {
		s.mu.Lock()
		s.now = s.now.Add(time.Minute)
		s.mu.Unlock()
		s.loop.Pass(context.Background())
	}
}

// annotations are those of a notebook now.
func (s *stage) annotations(name string) map[string]string {
	s.t.Helper()
	var n kubeflow.Notebook
	if err := s.client.Get(context.Background(), client.ObjectKey{Namespace: ns, Name: name}, &n); err != nil {
		s.t.Fatal(err)
	}
	return n.Annotations
}

// annotate sets annotations of a notebook as a user does; nil takes one away.
func (s *stage) annotate(o client.Object, set map[string]string) {
	s.t.Helper()
	if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
		s.t.Fatal(err)
	}
	a := maps.Clone(o.GetAnnotations())
	if a == nil {
		a = map[string]string{}
	}
	for k, v := range set {
		if a[k] = v; v == "" {
			delete(a, k)
		}
	}
	o.SetAnnotations(a)
	if err := s.client.Update(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) told(reason string) int {
	n := 0
	for _, e := range s.events {
		if strings.HasPrefix(e, reason+":") {
			n++
		}
	}
	return n
}

// toldInOrder checks that events have some parts in their order, and that there are none if there are no parts.
func (s *stage) toldInOrder(t *testing.T, parts []string) {
	t.Helper()
	rest := strings.Join(s.events, "\n")
	if (rest == "") != (parts == nil) {
		t.Errorf("events:\n%s", rest)
	}
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("no event %q in\n%s", part, strings.Join(s.events, "\n"))
		}
		rest = after
	}
}

func named(name string, annotations map[string]string) *kubeflow.Notebook {
	return &kubeflow.Notebook{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: "n-1", Annotations: annotations}}
}

func podOf(name string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name + "-0", UID: "p-1", Labels: map[string]string{api.LabelNotebook: name}},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(start.Add(-time.Minute)),
		}}},
	}
}

func TestAnIdleNotebookIsWarnedAndStopped(t *testing.T) {
	s := newStage(t, named("a", nil), podOf("a", corev1.ConditionTrue))
	s.kernel["a"] = "idle"
	s.pass(time.Minute)
	if a := s.annotations("a"); a[api.AnnotationLastActivity] != "2026-11-21T08:01:00Z" || a[api.AnnotationActivityCheck] == "" {
		t.Fatalf("at first sight its annotations are %v, want the two of Kubeflow", a)
	}
	first := s.writes
	s.pass(49 * time.Minute)
	if s.writes != first {
		t.Errorf("%d writes while nothing happens, want none", s.writes-first)
	}
	s.pass(2 * time.Minute) // 50 minutes without activity
	a := s.annotations("a")
	if a[api.AnnotationNotebookStopsAt] != "2026-11-21T09:01:00Z" || s.told("IdleWarning") != 1 {
		t.Fatalf("after 50 minutes: annotations %v, events %q; want a warning for 09:01", a, s.events)
	}
	warned := s.writes
	s.pass(8 * time.Minute)
	if s.writes != warned {
		t.Errorf("%d writes while the warning stands, want none", s.writes-warned)
	}
	s.pass(2 * time.Minute)
	a = s.annotations("a")
	if a[api.AnnotationStopped] == "" || !strings.Contains(a[api.AnnotationNotebookStoppedFor], "nothing has happened in it for 1h, and it holds 3.0 GiB") {
		t.Fatalf("after an hour its annotations are %v, want it stopped, and why", a)
	}
	for _, name := range []string{api.AnnotationNotebookStopsAt, api.AnnotationLastActivity, api.AnnotationActivityCheck} {
		if a[name] != "" {
			t.Errorf("annotation %s of a stopped notebook is %q, want none", name, a[name])
		}
	}
	if s.writes != warned+1 || s.told("StoppedIdle") != 1 {
		t.Errorf("%d writes and events %q; want one of each for the stop", s.writes-warned, s.events)
	}
	s.pass(5 * time.Minute)
	if s.writes != warned+1 {
		t.Error("a stopped notebook is written to")
	}

	// Its user brings it back.
	s.annotate(named("a", nil), map[string]string{api.AnnotationStopped: ""})
	s.pass(2 * time.Minute)
	if a = s.annotations("a"); a[api.AnnotationNotebookStoppedFor] != "" || a[api.AnnotationLastActivity] == "" || a[api.AnnotationStopped] != "" {
		t.Errorf("started again, its annotations are %v", a)
	}
}

func TestActivityTakesTheWarningBack(t *testing.T) {
	for _, c := range []struct {
		name string
		act  func(s *stage)
		why  string
	}{
		{"a kernel works", func(s *stage) { s.kernel["a"] = "busy" }, "a kernel is busy"},
		{"a kernel worked", func(s *stage) { s.activity["a"] = s.now }, "it has been idle for"},
		{"the GPU works", func(s *stage) { s.gpu = 0.6 }, "GPU GPU-1 is in use at 60%"},
		{"its user says never", func(s *stage) {
			s.annotate(named("a", nil), map[string]string{api.AnnotationNotebookIdleAfter: "never"})
		}, "its policy is never"},
		{"its namespace gives it a day", func(s *stage) {
			s.annotate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, map[string]string{api.AnnotationNotebookIdleAfter: "1d"})
		}, "and may be for 24h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, named("a", nil), podOf("a", corev1.ConditionTrue))
			s.kernel["a"] = "idle"
			s.pass(55 * time.Minute)
			if s.annotations("a")[api.AnnotationNotebookStopsAt] == "" {
				t.Fatal("there is no warning after 55 minutes")
			}
			c.act(s)
			s.pass(30 * time.Minute)
			a := s.annotations("a")
			if a[api.AnnotationNotebookStopsAt] != "" || a[api.AnnotationStopped] != "" || s.told("IdleWarningCleared") != 1 {
				t.Errorf("annotations %v, events %q; want the warning taken back", a, s.events)
			}
			if last := s.events[len(s.events)-1]; !strings.Contains(last, c.why) {
				t.Errorf("the event says %q, want %q in it", last, c.why)
			}
		})
	}
}

func TestWhoIsNotStopped(t *testing.T) {
	for _, c := range []struct {
		name        string
		annotations map[string]string
		ready       corev1.ConditionStatus
		kernel      string
		event       string // one that tells why
		asked       bool
	}{
		{name: "one that nobody can reach", kernel: "", ready: corev1.ConditionTrue, asked: true},
		{name: "one whose pod is not ready", kernel: "idle", ready: corev1.ConditionFalse},
		{name: "one that says never", kernel: "idle", ready: corev1.ConditionTrue, annotations: map[string]string{api.AnnotationNotebookIdleAfter: "never"}},
		{
			name: "one whose policy cannot be read", kernel: "idle", ready: corev1.ConditionTrue, event: "IdlePolicy",
			annotations: map[string]string{api.AnnotationNotebookIdleAfter: "soon"},
		},
		{name: "one that has no kernels API", kernel: "none", ready: corev1.ConditionTrue, event: "IdleUnknown", asked: true},
		{
			name: "one that serves VS Code and does not report its use", kernel: "none", ready: corev1.ConditionTrue, event: "IdleUnknown", asked: true,
			annotations: map[string]string{api.AnnotationServerType: "group-one"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, named("a", c.annotations), podOf("a", c.ready))
			s.kernel["a"] = c.kernel
			s.pass(5 * time.Hour)
			a := s.annotations("a")
			if a[api.AnnotationStopped] != "" || a[api.AnnotationNotebookStopsAt] != "" {
				t.Errorf("annotations are %v, want it neither warned nor stopped", a)
			}
			if (s.asked > 0) != c.asked {
				t.Errorf("its server was asked %d times, want some: %v", s.asked, c.asked)
			}
			if c.event != "" && s.told(c.event) != 1 || c.event == "" && len(s.events) > 0 {
				t.Errorf("events are %q, want one %s", s.events, c.event)
			}
			if s.writes > 1 {
				t.Errorf("%d writes, want one at most", s.writes)
			}
		})
	}
}

func TestByTheGPUWhatServesVSCodeIsStopped(t *testing.T) {
	s := newStage(t, named("a", map[string]string{api.AnnotationServerType: "group-one", api.AnnotationNotebookIdleBy: "gpu"}), podOf("a", corev1.ConditionTrue))
	s.kernel["a"] = "none"
	s.pass(65 * time.Minute)
	if a := s.annotations("a"); a[api.AnnotationStopped] == "" {
		t.Errorf("annotations are %v, want it stopped", a)
	}
}

func TestASessionEndsInUse(t *testing.T) {
	pod := podOf("a", corev1.ConditionTrue)
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start),
	})
	s := newStage(t, named("a", map[string]string{api.AnnotationMaxSession: "2h", api.AnnotationNotebookIdleAfter: "never"}), pod)
	s.kernel["a"] = "busy"
	s.pass(115 * time.Minute)
	a := s.annotations("a")
	if a[api.AnnotationNotebookStopsAt] != "2026-11-21T10:00:00Z" || s.told("SessionEnding") != 1 || a[api.AnnotationStopped] != "" {
		t.Fatalf("after 115 minutes: annotations %v, events %q; want a warning for 10:00", a, s.events)
	}
	s.pass(10 * time.Minute)
	a = s.annotations("a")
	if a[api.AnnotationStopped] == "" || a[api.AnnotationNotebookStoppedFor] != "its session has lasted 2h, and may last 2h" || s.told("SessionEnded") != 1 {
		t.Errorf("after its time: annotations %v, events %q; want it stopped, and why", a, s.events)
	}
	if s.asked > 0 {
		t.Errorf("its server was asked %d times, want none: no use would keep it", s.asked)
	}
}

func TestAPolicyComesFromNotebookThenNamespaceThenProcess(t *testing.T) {
	for _, c := range []struct {
		name                string
		namespace, notebook string
		within              time.Duration // 0 is never
	}{
		{"the process says an hour", "", "", time.Hour},
		{"the namespace says two", "2h", "", 2 * time.Hour},
		{"the notebook says 30 minutes", "2h", "30m", 30 * time.Minute},
		{"the namespace says never", "never", "", 0},
		{"the notebook asks for it", "never", "30m", 30 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, named("a", map[string]string{api.AnnotationNotebookIdleAfter: c.notebook}), podOf("a", corev1.ConditionTrue))
			s.annotate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, map[string]string{api.AnnotationNotebookIdleAfter: c.namespace})
			s.kernel["a"] = "idle"
			if c.within == 0 {
				c.within = 30 * time.Hour
				s.pass(c.within)
			} else {
				s.pass(c.within - 2*time.Minute)
			}
			if s.annotations("a")[api.AnnotationStopped] != "" {
				t.Fatalf("it is stopped before %s are over", c.within)
			}
			if c.within < 30*time.Hour {
				s.pass(5 * time.Minute)
				if s.annotations("a")[api.AnnotationStopped] == "" {
					t.Errorf("it is not stopped after %s", c.within)
				}
			}
		})
	}
}

func TestNothingIsWrittenWithoutAPod(t *testing.T) {
	s := newStage(t, named("a", map[string]string{api.AnnotationLastActivity: "2026-11-21T07:00:00Z", api.AnnotationActivityCheck: "2026-11-21T07:00:00Z"}))
	s.pass(10 * time.Minute)
	if a := s.annotations("a"); len(a) > 0 || s.writes != 1 {
		t.Errorf("after %d writes its annotations are %v, want none after one", s.writes, a)
	}
}

func TestInModeOffNothingIsDone(t *testing.T) {
	s := newStage(t, named("a", nil), podOf("a", corev1.ConditionTrue))
	s.kernel["a"] = "idle"
	s.options.Mode = func() modes.Mode { return modes.Off }
	s.restart()
	s.pass(3 * time.Hour)
	if s.asked > 0 || s.writes > 0 {
		t.Errorf("%d looks and %d writes, want none", s.asked, s.writes)
	}
}

func TestInModeGovernTheSameIsDone(t *testing.T) {
	s := newStage(t, named("a", nil), podOf("a", corev1.ConditionTrue))
	s.kernel["a"] = "idle"
	s.options.Mode = func() modes.Mode { return modes.Govern }
	s.restart()
	s.pass(65 * time.Minute)
	if a := s.annotations("a"); a[api.AnnotationStopped] == "" {
		t.Errorf("annotations are %v, want it stopped by the lever that Kubeflow's controller honors", a)
	}
}

func TestNobodyIsAskedWithoutAPolicy(t *testing.T) {
	s := newStage(t, named("a", nil), podOf("a", corev1.ConditionTrue))
	s.options.Default = rules.Off()
	s.restart()
	s.kernel["a"] = "idle"
	if wait := s.loop.Pass(context.Background()); wait != 0 || s.asked > 0 || s.writes > 0 {
		t.Errorf("the next pass is in %s, after %d looks and %d writes; want none before a change", wait, s.asked, s.writes)
	}
}
