package runtimes

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/runs"
)

// ran is a pod of a name that was bound so long before now.
func ran(name string, now time.Time, long time.Duration) *v1.Pod {
	p := kubetest.Pod(name, "a", "nvidia.com/gpu", 1)
	p.Status.StartTime = nil
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-long))}}
	return p
}

// left is how long a pod of the same template is expected to run, at the half of earlier runs.
func left(t *Times, now time.Time) time.Duration {
	end := t.End(ran("next", now, 0), 0.5, now)
	if end.IsZero() {
		return 0
	}
	return end.Sub(now)
}

func TestTimesAreLearnedFromPodsThatEnd(t *testing.T) {
	now, times := time.Now(), New()
	for i := range 4 {
		times.Gone(ran(fmt.Sprint(i), now, time.Hour), now)
	}
	if got := left(times, now); got != 0 {
		t.Errorf("after 4 pods another is expected to run for %v", got)
	}
	deleted := ran("deleted", now, time.Minute)
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	cpu := ran("cpu", now, time.Minute)
	cpu.Spec.Containers[0].Resources = v1.ResourceRequirements{}
	for _, p := range []*v1.Pod{deleted, cpu, ran("last", now, time.Hour)} {
		times.Gone(p, now)
	}
	if got := left(times, now); got != time.Hour {
		t.Errorf("after 5 pods that ran for an hour another is expected to run for %v", got)
	}
}

func TestAGangCountsOnceForEachOfItsRuns(t *testing.T) {
	now, times := time.Now(), New()
	for run := range 5 {
		end := now.Add(time.Duration(run) * 2 * time.Hour)
		for i := range 8 {
			p := ran(fmt.Sprint(run, i), end, time.Hour)
			p.Annotations[api.AnnotationGang], p.Annotations[api.AnnotationGangMinCount] = "g", "8"
			times.Gone(p, end.Add(time.Duration(i)*time.Second))
		}
	}
	p := ran("next", now, 0)
	p.Annotations[api.AnnotationGang], p.Annotations[api.AnnotationGangMinCount] = "g", "8"
	if got := times.times.Of(runs.TemplateOf(p)).Len(); got != 5 {
		t.Errorf("5 runs of a gang of 8 count %d times", got)
	}
}

// TestRunTimesAreRememberedOverRestarts has three schedulers learn, one after the other; the ConfigMap is then damaged.
func TestRunTimesAreRememberedOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		maps := client.CoreV1().ConfigMaps(runs.Namespace)
		writes := func() (n int) {
			for _, a := range client.Actions() {
				if a.GetVerb() == "update" || a.GetVerb() == "create" {
					n++
				}
			}
			return n
		}
		for i := range 3 {
			ctx, stop := context.WithCancel(t.Context())
			times := New()
			times.Gone(ran(fmt.Sprint(i, "early"), time.Now(), time.Hour), time.Now()) // before it is loaded
			go times.Remember(ctx, maps, func() bool { return true })
			synctest.Wait()
			times.Gone(ran(fmt.Sprint(i, "late"), time.Now(), time.Hour), time.Now())
			time.Sleep(2 * saveEvery)
			stop()
			synctest.Wait()
			if got := times.times.Of(runs.TemplateOf(ran("next", time.Now(), 0))).Len(); got != []int{0, 0, 6}[i] {
				t.Errorf("scheduler %d knows %d runs", i, got)
			}
		}
		before := writes()
		ctx, stop := context.WithCancel(t.Context())
		go New().Remember(ctx, maps, func() bool { return true })
		time.Sleep(time.Hour)
		stop()
		if synctest.Wait(); writes() != before {
			t.Errorf("%d writes though nothing has been learned", writes()-before)
		}
		m, err := maps.Get(t.Context(), runs.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.BinaryData[runs.Key][5] ^= 1
		if _, err := maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		again := New()
		ctx, stop = context.WithCancel(t.Context())
		defer stop()
		go again.Remember(ctx, maps, func() bool { return true })
		synctest.Wait()
		for i := range 5 {
			p := ran("new", time.Now(), time.Minute)
			p.UID = types.UID(fmt.Sprint(i))
			again.Gone(p, time.Now())
		}
		if got := left(again, time.Now()); got != time.Minute {
			t.Errorf("with damaged run times those learned since give %v", got)
		}
	})
}

// TestRunTimesThatCannotBeWrittenAreWrittenLater, and one that does not lead writes none.
func TestRunTimesThatCannotBeWrittenAreWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var refuses, leads atomic.Bool
		refuses.Store(true)
		client.PrependReactor("create", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
			return refuses.Load(), nil, errors.New("no")
		})
		maps := client.CoreV1().ConfigMaps(runs.Namespace)
		there := func() bool {
			_, err := maps.Get(t.Context(), runs.Name, metav1.GetOptions{})
			return err == nil
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		times := New()
		go times.Remember(ctx, maps, leads.Load)
		times.Gone(ran("a", time.Now(), time.Hour), time.Now())
		refuses.Store(false)
		time.Sleep(3 * saveEvery)
		if synctest.Wait(); there() {
			t.Error("a scheduler that does not lead writes")
		}
		leads.Store(true)
		refuses.Store(true)
		time.Sleep(3 * saveEvery)
		synctest.Wait()
		refuses.Store(false)
		time.Sleep(2 * saveEvery)
		if synctest.Wait(); !there() {
			t.Error("what could not be written is not written later")
		}
	})
}
