package meter

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// lines are those of a family, without its head.
func lines(text []byte, family string) (out []string) {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, family); ok && strings.ContainsAny(rest[:1], "{ ") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// meterOf is the meter of a rig, which has seen all there is.
func meterOf(r *rig) *Meter {
	m := New(r.book, Options{})
	m.tally = r.tally
	m.tally.current = true
	return m
}

func TestSeriesSayWhoHoldsWhatAndWhoWaits(t *testing.T) {
	r := newRig(t)
	n := aNode("n", 2, 0)
	n.Labels = map[string]string{api.LabelCount: "4"}
	r.node(n)
	held := aPod("a", "n", 1, 0)
	r.pod(held)
	waits := aPod("w", "", 1, 0)
	waits.CreationTimestamp = metav1.NewTime(at(0))
	waits.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "no node fits"}}
	r.pod(waits)
	r.flush()
	r.clock = at(60)
	r.flush()
	text := meterOf(r).Series(t.Context(), r.clock)
	for family, want := range map[string][]string{
		"berth_gpu_held":             {`berth_gpu_held{node="n",product="unknown",namespace="vision",pod="a",kind="Pod",workload="a",user="ann",queue="red"} 1`},
		"berth_node_gpu_devices":     {`berth_node_gpu_devices{node="n",kind="capacity"} 2`, `berth_node_gpu_devices{node="n",kind="allocatable"} 2`},
		"berth_gpu_pod_wait_seconds": {`berth_gpu_pod_wait_seconds{namespace="vision",pod="w",kind="Pod",workload="w",user="ann",queue="red",reason="Unschedulable"} 3600`},
	} {
		if diff := cmp.Diff(want, lines(text, family)); diff != "" {
			t.Errorf("%s: -want +got\n%s", family, diff)
		}
	}
	states := strings.Join(lines(text, "berth_node_gpus"), "\n")
	for _, want := range []string{`state="labeled"} 4`, `state="present"} 4`, `state="held"} 1`, `state="free"} 3`, `state="unhealthy"} 0`} {
		if !strings.Contains(states, want) {
			t.Errorf("%s is missing of\n%s", want, states)
		}
	}
	if got := lines(text, "berth_gpu_seconds_total"); len(got) != 2 || !strings.Contains(got[0], `namespace="vision",user="ann",queue="red"`) || !strings.HasSuffix(got[0], `what="held"} 3600`) || !strings.HasSuffix(got[1], `what="idle"} 10800`) {
		t.Errorf("seconds are %q; want an hour held and three idle", got)
	}
	r.gone(waits)
	if got := lines(meterOf(r).Series(t.Context(), r.clock), "berth_gpu_pod_wait_seconds"); got != nil {
		t.Errorf("a pod that is gone still waits: %q", got)
	}
}

// TestCountersGoOnWhenTheMeterStartsAgain has days close, and the meter killed and started, and asks that no counter falls.
func TestCountersGoOnWhenTheMeterStartsAgain(t *testing.T) {
	r := newRig(t)
	r.node(aNode("n", 2, 0))
	pod := aPod("a", "n", 1, 0)
	r.pod(pod)
	r.flush()
	was := map[string]float64{}
	for hour := 1; hour <= 60; hour += 5 {
		r.clock = at(60 * hour)
		r.flush()
		if hour%20 == 1 {
			r.start() // on what the book has
			r.node(aNode("n", 2, 0))
			r.pod(pod)
		}
		for {
			closed, err := r.book.CloseDay(t.Context(), r.clock)
			if err != nil {
				t.Fatal(err)
			}
			if !closed {
				break
			}
		}
		text := meterOf(r).Series(t.Context(), r.clock)
		for _, family := range []string{"berth_gpu_seconds_total", "berth_cost_usd_total"} {
			for _, line := range lines(text, family) {
				name, number, _ := strings.Cut(line, "} ")
				v, err := strconv.ParseFloat(number, 64)
				if err != nil {
					t.Fatal(err)
				}
				if v < was[name] || strings.Contains(name, "held") && family == "berth_gpu_seconds_total" && v != float64(hour)*3600 {
					t.Errorf("after %d hours %s; it was %v", hour, line, was[name])
				}
				was[name] = v
			}
		}
	}
	if len(was) != 4 {
		t.Errorf("counters %v; want two of what is held and two of what is idle", was)
	}
}

func TestNothingIsSaidBeforeTheClusterIsRead(t *testing.T) {
	r := newRig(t)
	if got := New(r.book, Options{}).Series(t.Context(), time.Now()); got != nil {
		t.Errorf("%s", got)
	}
	if nodes, _, err := New(r.book, Options{}).Exporters(t.Context()); nodes != nil || err != nil {
		t.Errorf("%v, %v", nodes, err)
	}
}

func TestLabelsAreEscaped(t *testing.T) {
	p := &page{}
	p.series(gpuMemory, 1, "a\"b\\c\nd", "", "u")
	if got, want := string(p.b), `berth_gpu_memory_bytes{node="a\"b\\c\nd",UUID="u"} 1`+"\n"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}
