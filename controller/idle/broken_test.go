package idle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
)

// story is what the loop does to one notebook: it records, warns, takes the warning
// back as somebody works, loses the server, warns again, stops it, and records again
// when its user has brought it back. Where again is set, each failed write is the end of
// a process. It gives the number of writes of the loop.
func (s *stage) story(anew bool) int {
	s.t.Helper()
	was := 0
	let := func(d time.Duration) {
		for end := s.time().Add(d); s.time().Before(end); {
			s.pass(time.Minute)
			if anew && was < s.breakAt && s.writes >= s.breakAt {
				s.restart()
			}
			was = s.writes
			a := s.annotations("a")
			s.mu.Lock()
			used := s.activity["a"]
			s.mu.Unlock()
			if a[api.AnnotationStopped] == "" {
				continue
			}
			if s.now.Sub(used) < time.Hour {
				s.t.Fatalf("at %s it is stopped, and it was used at %s", s.now, used)
			}
			if !s.warned() {
				s.t.Fatalf("it is stopped without a warning: events are %q", s.events)
			}
		}
	}
	s.kernel["a"], s.activity["a"] = "idle", start
	let(55 * time.Minute) // warned
	s.kernel["a"] = "busy"
	let(5 * time.Minute)
	s.kernel["a"], s.activity["a"] = "idle", s.now // no longer warned
	let(5 * time.Minute)
	s.kernel["a"] = ""
	let(10 * time.Minute) // forgotten
	s.kernel["a"] = "idle"
	let(40 * time.Minute) // warned
	if s.annotations("a")[api.AnnotationStopped] != "" {
		s.t.Fatal("it is stopped before its time")
	}
	let(90 * time.Minute) // stopped: a new process may begin to count again
	a := s.annotations("a")
	if a[api.AnnotationStopped] == "" || a[api.AnnotationNotebookStoppedFor] == "" || len(a) != 2 {
		s.t.Errorf("two hours after it was last used its annotations are %v, want it stopped, and why, and nothing else", a)
	}
	s.annotate(named("a", nil), map[string]string{api.AnnotationStopped: ""})
	s.mu.Lock()
	s.activity["a"] = s.now
	s.mu.Unlock()
	let(10 * time.Minute)
	if a = s.annotations("a"); len(a) != 2 || !s.recorded("a") {
		s.t.Errorf("started again, its annotations are %v, want when it was last used, and nothing else", a)
	}
	return s.writes
}

// warned reports whether of all that was told before a stop a warning was the last.
func (s *stage) warned() bool {
	told := slices.DeleteFunc(slices.Clone(s.events), func(e string) bool { return strings.HasPrefix(e, "StoppedIdle:") })
	return len(told) > 0 && strings.HasPrefix(told[len(told)-1], "IdleWarning:")
}

// TestAFailureOfAnyWriteChangesNothing breaks each write of the loop in turn, before
// and after it is done, and goes on with the same process or with a new one: the notebook
// is stopped once, not before its time, and never without a warning that an event told.
func TestAFailureOfAnyWriteChangesNothing(t *testing.T) {
	calm := newStage(t, named("a", nil), podOf("a", corev1.ConditionTrue))
	writes := calm.story(false)
	if warned, stopped := calm.told("IdleWarning"), calm.told("StoppedIdle"); warned != 2 || stopped != 1 || writes < 7 {
		t.Fatalf("undisturbed, it is warned of %d times and stopped %d times with %d writes; want 2 and 1 with at least 7", warned, stopped, writes)
	}
	for _, done := range []bool{false, true} {
		for _, anew := range []bool{false, true} {
			for at := 1; at <= writes; at++ {
				t.Run(fmt.Sprintf("write %d, done %v, new process %v", at, done, anew), func(t *testing.T) {
					s := newStage(t, named("a", nil), podOf("a", corev1.ConditionTrue))
					s.breakAt, s.done = at, done
					s.story(anew)
					if n := s.told("StoppedIdle"); n > 1 || n == 0 && !done {
						t.Errorf("its stop was told %d times: %q", n, s.events)
					}
					if n := s.told("IdleWarning"); n > 3 {
						t.Errorf("warnings were told %d times: %q; want two, and one more by a process that finds one", n, s.events)
					}
				})
			}
		}
	}
}
