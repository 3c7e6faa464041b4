package devices

import (
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
)

func TestAttemptsAreCounted(t *testing.T) {
	register(newDesk())
	decided(resultUnschedulable, "NotEnoughGPUs", time.Now())
	decided(resultUnschedulable, "NotEnoughGPUs", time.Now())
	decided(resultHeld, "", time.Now().Add(-time.Second))
	for labels, want := range map[[2]string]float64{{resultUnschedulable, "NotEnoughGPUs"}: 2, {resultHeld, ""}: 1} {
		got, err := testutil.GetCounterMetricValue(attemptsTotal.WithLabelValues(labels[0], labels[1]))
		if err != nil || got != want {
			t.Errorf("%q: %v attempts (%v), want %v", labels, got, err, want)
		}
	}
	seconds, err := testutil.GetHistogramMetricValue(decisionSeconds.WithLabelValues(resultHeld))
	if err != nil || seconds < 1 || seconds > 100 {
		t.Errorf("a decision of a second was counted with %v s (%v)", seconds, err)
	}
}

// TestGaugesBeforeTheFirstPod asks a scheduler that has not looked at a node yet.
func TestGaugesBeforeTheFirstPod(t *testing.T) {
	register(newDesk())
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
	register(newDesk())
	began := time.Now()
	for b.Loop() {
		decided(resultNarrow, "", began)
	}
}
