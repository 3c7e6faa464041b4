package idle_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/idle"
)

// rows: NB-51

// governed is the mode in which Kubeflow's controller runs notebooks.
func governed() runtime.Mode { return runtime.Govern }

// recorded reports whether a notebook says when something last happened in it.
func (s *stage) recorded(name string) bool {
	a := s.annotations(name)
	if (a[api.AnnotationLastActivity] == "") != (a[api.AnnotationActivityCheck] == "") {
		s.t.Errorf("annotations are %v, want both of Kubeflow's or none", a)
	}
	return a[api.AnnotationLastActivity] != ""
}

// TestTheRecordGoesWithThePolicy: who is not looked at any more has no record that
// grows old, and others are not told to stop it for that.
func TestTheRecordGoesWithThePolicy(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(s *stage)
		mode func() runtime.Mode
	}{
		{"its user says never", func(s *stage) {
			s.annotate(named("a", nil), map[string]string{api.AnnotationNotebookIdleAfter: "never"})
		}, nil},
		{"its policy cannot be read any more", func(s *stage) {
			s.annotate(named("a", nil), map[string]string{api.AnnotationNotebookIdleAfter: "soon"})
		}, nil},
		{"its namespace says never", func(s *stage) {
			s.annotate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, map[string]string{api.AnnotationNotebookIdleAfter: "never"})
		}, nil},
		{"the process that follows has no policy", func(s *stage) {
			s.options.Default = rules.Off()
			s.restart()
		}, nil},
		{"its user says never, and Kubeflow's controller runs it", func(s *stage) {
			s.annotate(named("a", nil), map[string]string{api.AnnotationNotebookIdleAfter: "never"})
		}, governed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, named("a", nil), podOf("a", corev1.ConditionTrue))
			s.options.Mode = c.mode
			s.restart()
			s.kernel["a"] = "idle"
			s.pass(5 * time.Minute)
			if !s.recorded("a") {
				t.Fatal("there is no record while there is a policy")
			}
			c.end(s)
			before := s.writes
			s.pass(time.Hour)
			if s.recorded("a") || s.writes != before+1 {
				t.Errorf("after %d writes its annotations are %v, want no record after one", s.writes-before, s.annotations("a"))
			}
		})
	}
}

// TestTheRecordOfKubeflowIsLeftToIt: where Kubeflow's controller runs notebooks it may
// stop idle ones itself, by the same record. To take that away would have it begin again.
func TestTheRecordOfKubeflowIsLeftToIt(t *testing.T) {
	for _, policy := range []string{"never", "soon"} {
		s := newStage(t, named("a", map[string]string{
			api.AnnotationNotebookIdleAfter: policy, api.AnnotationLastActivity: "2026-11-21T07:00:00Z", api.AnnotationActivityCheck: "2026-11-21T07:59:00Z",
		}), podOf("a", corev1.ConditionTrue))
		s.options.Mode = governed
		s.restart()
		s.pass(time.Hour)
		if a := s.annotations("a"); s.writes > 0 || a[api.AnnotationLastActivity] != "2026-11-21T07:00:00Z" {
			t.Errorf("policy %s: %d writes, annotations %v; want them as they were", policy, s.writes, a)
		}
	}
}

// TestTheRecordGoesWhileNobodyAnswers: while it cannot be told whether a notebook is
// used, none is recorded. When it answers again what this process has seen counts on;
// there is no GPU here, which might have been in use in the meantime.
func TestTheRecordGoesWhileNobodyAnswers(t *testing.T) {
	s := newStage(t, named("a", nil), podOf("a", corev1.ConditionTrue))
	s.kernel["a"], s.gauged = "idle", rules.Absent
	s.pass(10 * time.Minute)
	before := s.writes
	s.kernel["a"] = ""
	s.pass(3 * time.Minute)
	if s.writes != before {
		t.Error("three looks that fail are written down, and looks may fail")
	}
	s.pass(17 * time.Minute)
	if s.recorded("a") || s.writes != before+1 {
		t.Errorf("after %d writes in 20 minutes without an answer its annotations are %v, want no record after one", s.writes-before, s.annotations("a"))
	}
	s.kernel["a"] = "idle"
	s.pass(10 * time.Minute)
	if got, want := s.annotations("a")[api.AnnotationLastActivity], "2026-11-21T08:01:00Z"; got != want {
		t.Errorf("it answers again, and says that something last happened at %q; want %s: nothing has since", got, want)
	}
	s.pass(25 * time.Minute)
	if a := s.annotations("a"); a[api.AnnotationStopped] == "" {
		t.Errorf("annotations are %v, want it stopped an hour after something last happened", a)
	}
}

// TestAWarningIsToldByWhoFindsIt: a process that dies after it has written a warning,
// and before its event has arrived, leaves it to the next to tell.
func TestAWarningIsToldByWhoFindsIt(t *testing.T) {
	s := newStage(t, named("a", nil), podOf("a", corev1.ConditionTrue))
	s.kernel["a"] = "idle"
	s.mute = true
	s.pass(55 * time.Minute)
	if s.annotations("a")[api.AnnotationNotebookStopsAt] == "" {
		t.Fatal("there is no warning after 55 minutes")
	}
	s.mute = false
	s.restart()
	s.pass(5 * time.Minute)
	if n := s.told("IdleWarning"); n != 1 {
		t.Errorf("events are %q, want one warning by the process that follows", s.events)
	}
	s.pass(15 * time.Minute)
	if a := s.annotations("a"); a[api.AnnotationStopped] == "" || s.told("IdleWarning") != 1 || s.told("StoppedIdle") != 1 {
		t.Errorf("annotations %v, events %q; want it warned of once and stopped", a, s.events)
	}
}

func TestARestartStopsNothingSooner(t *testing.T) {
	s := newStage(t, named("a", nil), podOf("a", corev1.ConditionTrue))
	s.kernel["a"] = "idle"
	s.pass(58 * time.Minute) // warned for 09:01
	s.restart()
	s.pass(9 * time.Minute)
	if a := s.annotations("a"); a[api.AnnotationStopped] != "" {
		t.Fatalf("a process that has looked for 9 minutes stops on a warning of 10: %v", a)
	}
	s.pass(20 * time.Minute)
	if a := s.annotations("a"); a[api.AnnotationStopped] == "" {
		t.Errorf("annotations are %v, want it stopped", a)
	}
}
