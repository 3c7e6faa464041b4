package idle_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/controller/idle"
	"berth.dev/berth/controller/queue"
	rules "berth.dev/berth/core/idle"
)

// room is a queue whose idle notebooks give way to one workload.
type room struct {
	gives   bool
	waits   bool
	stands  queue.Stand
	asked   []string // the pods of the notebooks that were idle when it was last asked
	changed chan struct{}
}

func (r *room) GivesWay(*corev1.Pod) bool { return r.gives }
func (r *room) Stands(string) queue.Stand { return r.stands }
func (r *room) Changed() <-chan struct{}  { return r.changed }
func (r *room) Ways(list []*corev1.Pod, _ func(*corev1.Pod) bool) map[string]queue.Way {
	r.asked = nil
	out := map[string]queue.Way{}
	for _, p := range list {
		r.asked = append(r.asked, p.Name)
		if r.waits {
			out[string(p.UID)] = queue.Way{Workload: "gang-1", Why: "a workload of queue lab waits for 2 GPUs"}
		}
	}
	return out
}

// newRoomStage is a stage whose notebooks are of a queue, and have no policy of their own.
func newRoomStage(t *testing.T, annotations map[string]string) (*stage, *room) {
	s := newStage(t, named("a", annotations), podOf("a", corev1.ConditionTrue))
	r := &room{gives: true}
	s.options = idle.Options{Default: rules.Off(), Prober: s, Now: s.time, Room: r}
	s.kernel["a"] = "idle"
	s.restart()
	return s, r
}

func TestAnIdleNotebookGivesWayAndReturns(t *testing.T) {
	s, r := newRoomStage(t, nil)
	s.pass(5 * time.Hour)
	if a := s.annotations("a"); a[api.AnnotationStopped] != "" || s.told("GivesWayWarning") != 0 {
		t.Fatalf("no workload waits: annotations %v, events %q", a, s.events)
	}
	r.waits, r.stands = true, queue.Waits
	s.pass(time.Minute)
	if a := s.annotations("a"); a[api.AnnotationNotebookStopsAt] == "" || s.told("GivesWayWarning") != 1 {
		t.Fatalf("a workload waits: annotations %v, events %q, want a warning", a, s.events)
	}
	s.pass(2 * time.Minute)
	a := s.annotations("a")
	if a[api.AnnotationStopped] == "" || a[api.AnnotationNotebookGaveWay] != a[api.AnnotationStopped]+" gang-1" || s.told("GaveWay") != 1 {
		t.Fatalf("after the warning: annotations %v, events %q, want it stopped", a, s.events)
	}
	if why := a[api.AnnotationNotebookStoppedFor]; !strings.Contains(why, "gave way: nothing has happened in it for 5h") || !strings.HasSuffix(why, "; it starts again by itself, in its turn") {
		t.Errorf("the notebook is stopped for %q", why)
	}

	// The workload runs: it is started, and has no pod yet.
	pod := podOf("a", corev1.ConditionTrue)
	if err := s.client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.pass(5 * time.Minute)
	if a = s.annotations("a"); a[api.AnnotationStopped] == "" {
		t.Fatal("the notebook is started while the workload waits for what it left")
	}
	r.stands, r.waits = queue.Runs, false
	s.pass(time.Minute)
	a = s.annotations("a")
	if a[api.AnnotationStopped] != "" || a[api.AnnotationNotebookGaveWay] != api.NotebookReturns || s.told("Returns") != 1 {
		t.Fatalf("the workload runs: annotations %v, events %q, want it started", a, s.events)
	}
	s.pass(5 * time.Minute)
	if again := s.annotations("a"); !maps.Equal(again, a) {
		t.Errorf("while it waits for its turn its annotations change to %v", again)
	}

	// It has a node again.
	pod = podOf("a", corev1.ConditionTrue)
	pod.UID = "p-2"
	if err := s.client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.pass(2 * time.Minute)
	if a = s.annotations("a"); a[api.AnnotationNotebookGaveWay] != "" || a[api.AnnotationNotebookStoppedFor] != "" {
		t.Errorf("the notebook runs, and its annotations are %v", a)
	}
}

// stopped has the notebook of a stage stopped to give way.
func stopped(t *testing.T) (*stage, *room) {
	t.Helper()
	s, r := newRoomStage(t, nil)
	r.waits, r.stands = true, queue.Waits
	s.pass(65 * time.Minute)
	if a := s.annotations("a"); a[api.AnnotationNotebookGaveWay] == "" {
		t.Fatalf("the notebook has not given way: %v, %q", a, s.events)
	}
	return s, r
}

func TestWhatEndsTheWait(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*stage, *room)
		want string // of the mark: what it begins with
		runs bool
	}{
		"the workload is gone":         {func(_ *stage, r *room) { r.stands = queue.Gone }, api.NotebookReturns, true},
		"the workload does not use it": {func(s *stage, _ *room) { s.pass(10 * time.Minute) }, api.NotebookReturns, true},
		"nothing is known of queues":   {func(_ *stage, r *room) { r.stands = queue.Unknown }, "20", false},
		"its user starts it":           {func(s *stage, _ *room) { s.annotate(named("a", nil), map[string]string{api.AnnotationStopped: ""}) }, "", true},
		"its user stops it for longer": {func(s *stage, _ *room) {
			s.annotate(named("a", nil), map[string]string{api.AnnotationStopped: "2026-11-21T12:00:00Z"})
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := stopped(t)
			if err := s.client.Delete(t.Context(), podOf("a", corev1.ConditionTrue)); err != nil {
				t.Fatal(err)
			}
			c.do(s, r)
			s.pass(time.Minute)
			s.pass(time.Minute)
			a := s.annotations("a")
			mark := a[api.AnnotationNotebookGaveWay]
			if (mark == "") != (c.want == "") || !strings.HasPrefix(mark, c.want) || (a[api.AnnotationStopped] == "") != c.runs {
				t.Errorf("its annotations are %v, want a mark %q, and that it is started: %v", a, c.want, c.runs)
			}
		})
	}
}

func TestWhoDoesNotGiveWay(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		do          func(*stage, *room)
		asked       bool // it is looked at all the same
	}{
		"one of a queue that keeps them":   {nil, func(_ *stage, r *room) { r.gives = false }, false},
		"one that says never":              {map[string]string{api.AnnotationNotebookGivesWayAfter: "never"}, nil, false},
		"one that is never stopped":        {map[string]string{api.AnnotationNotebookIdleAfter: "never"}, nil, false},
		"one that computes":                {nil, func(s *stage, _ *room) { s.kernel["a"] = "busy" }, true},
		"one whose GPU is in use":          {nil, func(s *stage, _ *room) { s.gpu = 0.9 }, true},
		"one whose server does not answer": {nil, func(s *stage, _ *room) { s.kernel["a"] = "" }, true},
		"one whose server does not tell":   {nil, func(s *stage, _ *room) { s.kernel["a"] = "none" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := newRoomStage(t, c.annotations)
			r.waits, r.stands = true, queue.Waits
			if c.do != nil {
				c.do(s, r)
			}
			s.pass(5 * time.Hour)
			if a := s.annotations("a"); a[api.AnnotationStopped] != "" || s.told("GivesWayWarning") > 0 {
				t.Errorf("annotations %v, events %q", a, s.events)
			}
			if (s.asked > 0) != c.asked {
				t.Errorf("the notebook was asked %d times; want that it is asked: %v", s.asked, c.asked)
			}
		})
	}
}
