package nodeindex

import (
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
)

func TestAttemptsAreCounted(t *testing.T) {
	Register(NewCluster())
	counted := func(result, reason string) (attempts, seconds float64) {
		t.Helper()
		attempts, err := testutil.GetCounterMetricValue(attemptsTotal.WithLabelValues(result, reason))
		if err != nil {
			t.Fatal(err)
		}
		if seconds, err = testutil.GetHistogramMetricValue(decisionSeconds.WithLabelValues(result)); err != nil {
			t.Fatal(err)
		}
		return attempts, seconds
	}
	// Other tests of this process count, too.
	refused, _ := counted(ResultUnschedulable, "NotEnoughGPUs")
	held, took := counted(ResultHeld, "")
	Decided(ResultUnschedulable, "NotEnoughGPUs", time.Now())
	Decided(ResultUnschedulable, "NotEnoughGPUs", time.Now())
	Decided(ResultHeld, "", time.Now().Add(-time.Second))
	if after, _ := counted(ResultUnschedulable, "NotEnoughGPUs"); after-refused != 2 {
		t.Errorf("%v attempts without enough GPUs, want 2", after-refused)
	}
	after, seconds := counted(ResultHeld, "")
	if after-held != 1 {
		t.Errorf("%v attempts on a node that was held, want 1", after-held)
	}
	if seconds -= took; seconds < 0.999 || seconds > 600 { // a difference of sums is not exact, and the process may be stopped between two lines
		t.Errorf("a decision of a second was counted with %v s", seconds)
	}
}

// TestGaugesBeforeTheFirstPod asks a scheduler that has not looked at a node yet.
func TestGaugesBeforeTheFirstPod(t *testing.T) {
	Register(NewCluster())
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "berth_scheduler_") {
			names = append(names, f.GetName())
		}
	}
	if !strings.Contains(strings.Join(names, " "), "berth_scheduler_holds") {
		t.Errorf("berth_scheduler_holds is not among %v", names)
	}
}

func BenchmarkDecided(b *testing.B) {
	Register(NewCluster())
	began := time.Now()
	for b.Loop() {
		Decided(ResultNarrow, "", began)
	}
}
