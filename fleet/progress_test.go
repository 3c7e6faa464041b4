package fleet_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
)

// TestAPodHasTheProgressThatItsLogReports holds that the annotation follows the log, also over a restart of the fleet, and stays at the end.
func TestAPodHasTheProgressThatItsLogReports(t *testing.T) {
	inWorld(t, func(w *world) {
		trains := simulate(bare("x/train"), `{duration: 30s, logs: [start, "berth-progress: 0.25", "step 2", "berth-progress:0.75"]}`)
		w.bind(named(policy(trains, v1.RestartPolicyNever), "trains", 0), "n")
		want := func(progress string) {
			t.Helper()
			if got := w.pod("trains").Annotations[api.AnnotationProgress]; got != progress {
				t.Errorf("the pod's progress is %q, want %q", got, progress)
			}
		}
		w.after(9 * time.Second)
		want("")
		w.after(3 * time.Second)
		want("0.25")
		w.kill()
		w.after(3 * time.Second)
		w.start()
		w.after(10 * time.Second)
		want("0.25")
		w.after(time.Minute)
		want("0.75")
		w.want("trains", "Succeeded c:Completed(0)")
	}, a100("n", 1))
}
