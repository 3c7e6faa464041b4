package notebook_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"berth.dev/berth/api"
	"berth.dev/berth/controller/notebook"
	"berth.dev/berth/controller/runtime"
)

// metrics are Kubeflow's for the namespace of the world: the counters count for all
// tests of the process.
func (w *world) metrics() map[string]float64 {
	w.t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(notebook.Metrics(w.r)...)
	families, err := r.Gather()
	w.must(err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetName() == "namespace" && m.GetLabel()[0].GetValue() == namespace {
				out[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// TestMetricsAreKubeflows: dashboards made for Kubeflow's controller show the same of
// Berth's.
func TestMetricsAreKubeflows(t *testing.T) {
	w := newWorld(t)
	before := w.metrics()
	change := func(name string) float64 { return w.metrics()[name] - before[name] }

	w.forbid = "StatefulSet"
	w.apply(asking("a", 1))
	w.reconcile()
	if made, failed := change("notebook_create_total"), change("notebook_create_failed_total"); made != 1 || failed != 1 {
		t.Errorf("a StatefulSet that is refused counts %v times, and as failed %v; want once both", made, failed)
	}
	w.forbid = ""
	stopped := asking("b", 1)
	stopped.Annotations = map[string]string{api.AnnotationStopped: ""}
	w.apply(stopped)
	w.settle()
	if made, failed := change("notebook_create_total"), change("notebook_create_failed_total"); made != 3 || failed != 1 {
		t.Errorf("with two that are made %v are counted, and %v that failed; want 3 and 1", made, failed)
	}
	if got := w.metrics()["notebook_running"]; got != 1 {
		t.Errorf("%v run, want the one that is not stopped", got)
	}
	w.o.Mode = func() runtime.Mode { return runtime.Govern }
	w.restart()
	if got, there := w.metrics()["notebook_running"]; there {
		t.Errorf("%v are said to run where Kubeflow's controller counts them", got)
	}
}
