package fleet_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// log returns what a container of the pod has printed by now.
func (w *world) log(pod string) string {
	var out []string
	for _, c := range w.fleet.Containers("", "default", pod) {
		for _, l := range c.Lines {
			if !l.At.After(time.Now()) {
				out = append(out, l.Text)
			}
		}
	}
	return strings.Join(out, "\n")
}

// Status times are whole seconds; no pod starts on one.
func TestTheLogOfAnEndedContainerIsWhole(t *testing.T) {
	inWorld(t, func(w *world) {
		w.after(700 * time.Millisecond)
		w.bind(named(policy(bare("nvidia/cuda:12.0.0-base-ubuntu22.04", "nvidia-smi", "-L"), v1.RestartPolicyNever), "at-once", 1), "n")
		three := policy(simulate(bare("busybox"), "{duration: 3s, logs: [first, second, last]}"), v1.RestartPolicyNever)
		w.bind(named(three, "three", 0), "n")
		crashing := simulate(bare("busybox"), "{duration: 200ms, exitCode: 1, logs: [begin, end]}")
		w.bind(named(crashing, "crashing", 0), "n")
		w.after(5 * time.Second)

		w.want("at-once", "Succeeded c:Completed(0)")
		if got := w.log("at-once"); !strings.HasPrefix(got, "GPU 0: NVIDIA A100") {
			t.Errorf("nvidia-smi -L printed %q", got)
		}
		for pod, want := range map[string]string{"three": "first\nsecond\nlast", "crashing": "begin\nend"} {
			if got := w.log(pod); got != want {
				t.Errorf("pod %s printed %q, want %q", pod, got, want)
			}
		}
		if c := w.fleet.Containers("", "default", "crashing")[0]; len(c.Previous) != 2 {
			t.Errorf("the run before printed %v, want two lines", c.Previous)
		}
	}, a100("n", 1))
}

// A stopped container prints nothing after its end.
func TestTheLogEndsWithTheContainer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.after(700 * time.Millisecond)
		loop := policy(bare("busybox", "sh", "-c", "while true; do echo on; sleep 1; done"), v1.RestartPolicyNever)
		loop.Spec.ActiveDeadlineSeconds = new(int64(3))
		w.bind(named(loop, "loop", 0), "n")
		w.after(time.Minute)
		w.want("loop", "Failed DeadlineExceeded c:Error(137)")
		if n := strings.Count(w.log("loop"), "on"); n < 2 || n > 4 {
			t.Errorf("it printed %d lines in 3 s", n)
		}
	}, a100("n", 1))
}

func TestAShellThatExitsEndsItsContainer(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.bind(named(typed(policy(bare("ubuntu"), v1.RestartPolicyNever)), "debugger", 0), "n")
		w.after(time.Hour)
		w.want("debugger", "Running c:ready")
		w.fleet.Exit("n", string(p.UID), "c", 1, 0) // of a run that is not
		w.fleet.Exit("n", "other", "c", 0, 0)
		w.fleet.Exit("none", string(p.UID), "c", 0, 0)
		w.after(time.Second)
		w.want("debugger", "Running c:ready")
		w.fleet.Exit("n", string(p.UID), "c", 0, 7)
		w.after(time.Second)
		w.want("debugger", "Failed c:Error(7)")
	}, a100("n", 1))
}
