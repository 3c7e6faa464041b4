package estimates

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics/testutil"

	"berth.dev/berth/api"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/runs"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// waits is a pod that asks for GPUs, was created at a time, and was refused.
func waits(name string, gpus int, created time.Time) *v1.Pod {
	p := kubetest.Pod(name, "", api.ResourceGPU, gpus)
	p.UID, p.CreationTimestamp = types.UID(name), metav1.NewTime(created)
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
	return p
}

// bound has a pod start on node a at a time, and run for so long at most.
func bound(p *v1.Pod, at time.Time, most string) *v1.Pod {
	out := p.DeepCopy()
	out.Spec.NodeName = "a"
	out.Status.StartTime = new(metav1.NewTime(at))
	out.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	out.Annotations[api.AnnotationMaxRunTime] = most
	return out
}

// holds has a pod start on node a, with GPUs of it.
func holds(p *v1.Pod, at time.Time, most string, gpus ...string) *v1.Pod {
	return kubetest.Observed(bound(p, at, most), api.ResourceGPU, gpus...)
}

// node has two GPUs.
var node = kubetest.Inventory("a", kubetest.A100s("a", 2), "cpu", 64, api.ResourceGPU, 2)

// cluster is a node of two GPUs.
type cluster struct {
	t     *testing.T
	e     *Estimates
	asked int // how often starts were estimated
}

func (c *cluster) look(now time.Time, pods ...*v1.Pod) {
	c.t.Helper()
	err := c.e.Look(pods, func(came *forecast.Outcomes) *explain.Situation {
		c.asked++
		return &explain.Situation{Nodes: []*v1.Node{node}, Pods: pods, RunTimes: queue.NewRunTimes(), Outcomes: came}
	}, now)
	if err != nil {
		c.t.Fatal(err)
	}
}

func TestEstimatesAreComparedWithStarts(t *testing.T) {
	c := &cluster{t: t, e: New()}
	runsFor := holds(waits("runs", 2, noon), noon, "1h", "GPU-a-0", "GPU-a-1")
	next, old, fresh := waits("next", 1, noon), waits("old", 1, noon.Add(-time.Hour)), waits("fresh", 1, noon)
	fresh.Status.Conditions = nil // it was not tried yet
	c.look(noon.Add(10*time.Second), runsFor, next, old, fresh)
	want := []forecast.Submission{{ID: runs.Hidden("next"), At: noon.Add(10 * time.Second), Outcome: forecast.Outcome{GPUs: 1, Estimated: time.Hour - 10*time.Second, By: time.Hour - 10*time.Second}}}
	if diff := cmp.Diff(want, c.e.came.Waiting()); diff != "" {
		t.Fatalf("waiting -want +got\n%s", diff)
	}
	c.look(noon.Add(20*time.Second), runsFor, next, old, fresh)
	if c.asked != 1 {
		t.Errorf("starts were estimated %d times, though nothing was submitted since", c.asked)
	}
	c.look(noon.Add(time.Hour), bound(next, noon.Add(50*time.Minute+10*time.Second), "1h"), old)
	list := c.e.came.List()
	if len(list) != 1 || list[0].Came != 50*time.Minute || len(c.e.came.Waiting()) != 0 {
		t.Errorf("what came of it: %+v", list)
	}
	c.look(noon.Add(time.Hour), runsFor, waits("gone", 1, noon.Add(time.Hour)))
	c.look(noon.Add(2*time.Hour), runsFor)
	if n := len(c.e.came.Waiting()); n != 0 {
		t.Errorf("%d wait, though the only one is gone", n)
	}
}

// TestAnUnknownStartIsCountedApart, once it does not become known: that of a gang is when all its pods exist.
func TestAnUnknownStartIsCountedApart(t *testing.T) {
	c := &cluster{t: t, e: New()}
	forever := holds(waits("forever", 1, noon), noon, "", "GPU-a-0")
	limited := holds(waits("limited", 1, noon), noon, "1h", "GPU-a-1")
	member := func(i int) *v1.Pod {
		p := waits(fmt.Sprint("gang-", i), 1, noon)
		p.Annotations[api.AnnotationGang], p.Annotations[api.AnnotationGangMinCount] = "g", "2"
		return p
	}
	c.look(noon.Add(10*time.Second), forever, limited, member(0))
	c.look(noon.Add(20*time.Second), forever, limited, member(0), member(1))
	if n := len(c.e.came.Waiting()); n != 0 {
		t.Errorf("%d are counted as unknown at once", n)
	}
	both := []*v1.Pod{member(0), member(1)}
	c.look(noon.Add(70*time.Second), forever, limited, both[0], both[1])
	c.look(noon.Add(2*time.Hour), forever, bound(both[0], noon.Add(time.Hour), "1h"), bound(both[1], noon.Add(time.Hour+time.Second), "1h"))
	list := c.e.came.List()
	if len(list) != 1 || list[0].Estimated != forecast.Never || list[0].GPUs != 2 || list[0].Came != time.Hour+time.Second-70*time.Second {
		t.Fatalf("what came of it: %+v", list)
	}
	want := `# HELP berth_start_estimates_total [ALPHA] Workloads that have waited and started, by their number of GPUs and how that compares with the estimate at their submission.
# TYPE berth_start_estimates_total counter
berth_start_estimates_total{gpus="under-4",result="unknown"} 1
`
	if err := testutil.CustomCollectAndCompare(c.e.collector(), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	c.e.came.Submitted(forecast.Submission{ID: "x", At: noon, Outcome: forecast.Outcome{GPUs: 8, Estimated: time.Hour, By: forecast.Never}})
	c.e.came.Started("x", noon.Add(2*time.Hour))
	want = `# HELP berth_start_estimate_error_ratio [ALPHA] Median error of the estimated waits of the last workloads that have started, as part of the wait, by their number of GPUs.
# TYPE berth_start_estimate_error_ratio gauge
berth_start_estimate_error_ratio{gpus="4-and-more"} 0.5
`
	if err := testutil.CustomCollectAndCompare(c.e.collector(), strings.NewReader(want), "berth_start_estimate_error_ratio"); err != nil {
		t.Error(err)
	}
}

// TestEstimatesTakeTwoPercentOfACore has each look take five seconds, while there is always something that was just submitted.
func TestEstimatesTakeTwoPercentOfACore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy time.Duration
		ctx, stop := context.WithCancel(t.Context())
		began, n := time.Now(), 0
		go New().Run(ctx, &Source{
			Pods: func() ([]*v1.Pod, error) {
				n++
				return []*v1.Pod{holds(waits("runs", 2, began), began, "100h", "GPU-a-0", "GPU-a-1"), waits(fmt.Sprint("next-", n), 1, time.Now())}, nil
			},
			Around: func(pods []*v1.Pod, came *forecast.Outcomes) *explain.Situation {
				time.Sleep(5 * time.Second)
				busy += 5 * time.Second
				return &explain.Situation{Nodes: []*v1.Node{node}, Pods: pods, RunTimes: queue.NewRunTimes(), Outcomes: came}
			},
			Maps: fake.NewClientset().CoreV1().ConfigMaps(runs.Namespace), Leads: func() bool { return true },
		})
		time.Sleep(10 * time.Hour)
		stop()
		synctest.Wait()
		if part := busy.Seconds() / (10 * time.Hour).Seconds(); part < 0.01 || part > 0.0201 {
			t.Errorf("estimates take %.2f %% of a core", 100*part)
		}
	})
}

// TestEstimatesAreRememberedOverRestarts has two schedulers measure, one after the other; what they wrote is then damaged. One that
// does not lead reads and writes nothing, and what others have in the ConfigMap stays.
func TestEstimatesAreRememberedOverRebound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: runs.Namespace, Name: runs.Name}, BinaryData: map[string][]byte{runs.Key: {1}}})
		maps := client.CoreV1().ConfigMaps(runs.Namespace)
		var pods []*v1.Pod
		leads := true
		run := func(long time.Duration) *Estimates {
			ctx, stop := context.WithCancel(t.Context())
			e := New()
			go e.Run(ctx, &Source{
				Pods: func() ([]*v1.Pod, error) { return pods, nil },
				Around: func(pods []*v1.Pod, came *forecast.Outcomes) *explain.Situation {
					return &explain.Situation{Nodes: []*v1.Node{node}, Pods: pods, RunTimes: queue.NewRunTimes(), Outcomes: came}
				},
				Maps: maps, Leads: func() bool { return leads },
			})
			time.Sleep(long)
			synctest.Wait()
			stop()
			synctest.Wait()
			return e
		}
		began := time.Now()
		pods = []*v1.Pod{holds(waits("runs", 2, began), began, "1h", "GPU-a-0", "GPU-a-1"), waits("next", 1, began)}
		run(5 * time.Minute)
		pods = []*v1.Pod{bound(waits("next", 1, began), time.Now().Add(time.Minute), "1h")}
		if e := run(10 * time.Minute); len(e.came.List()) != 1 {
			t.Fatalf("the second scheduler knows what came of %d estimates", len(e.came.List()))
		}
		leads = false
		if e := run(10 * time.Minute); len(e.came.List()) != 0 {
			t.Error("one that does not lead reads")
		}
		leads = true
		m, err := maps.Get(t.Context(), runs.Name, metav1.GetOptions{})
		if err != nil || len(m.BinaryData[runs.Key]) != 1 {
			t.Fatalf("the run times are gone: %v", err)
		}
		m.BinaryData[runs.StartsKey][12] ^= 1
		if _, err := maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, holds(waits("runs", 2, time.Now()), time.Now(), "1h", "GPU-a-0", "GPU-a-1"), waits("last", 1, time.Now()))
		if e := run(10 * time.Minute); len(e.came.List()) != 0 || len(e.came.Waiting()) != 1 {
			t.Error("with what is damaged it does not begin again")
		}
	})
}
