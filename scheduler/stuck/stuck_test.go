package stuck_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"

	"berth.dev/berth/scheduler/stuck"
)

var began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// pod is one that began at 12:00 and waits for a reason, or runs with "".
func pod(name, reason, owner string, gpus int64) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "d", UID: "u"}}
	p.Spec = v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "main", Image: "x/y:1"}}}
	if gpus > 0 {
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "o", Controller: new(true)}}
	}
	p.Status.StartTime = &metav1.Time{Time: began}
	s := v1.ContainerStatus{Name: "main", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
	if reason != "" {
		s.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
	}
	p.Status.ContainerStatuses = []v1.ContainerStatus{s}
	return p
}

func crashed(p *v1.Pod, at int) *v1.Pod {
	s := &p.Status.ContainerStatuses[0]
	s.RestartCount, s.LastTerminationState.Terminated = 3, &v1.ContainerStateTerminated{StartedAt: metav1.Time{Time: began.Add(time.Duration(at) * time.Minute)}}
	return p
}

func TestTracker(t *testing.T) {
	type step struct {
		minute int
		pod    *v1.Pod // nil only looks
		want   string  // what is done, "" is nothing
	}
	loop := func(at int) *v1.Pod { return crashed(pod("p", "CrashLoopBackOff", "ReplicaSet", 1), at) }
	runs := pod("p", "", "ReplicaSet", 1)
	for _, tt := range []struct {
		name    string
		release time.Duration
		steps   []step
	}{
		{"a pod that cannot be pulled is told of after ten minutes, once", 0, []step{
			{1, pod("p", "ErrImagePull", "", 1), ""},
			{9, pod("p", "ImagePullBackOff", "", 1), ""},
			{10, nil, "tell p: container main: cannot pull image x/y:1"},
			{30, nil, ""},
			{31, pod("p", "ErrImagePull", "", 1), ""},
			{41, pod("p", "ImagePullBackOff", "", 1), ""},
		}},
		{"and again when it is stuck with something else", 0, []step{
			{1, pod("p", "ErrImagePull", "", 1), ""}, {10, nil, "tell p: container main: cannot pull image x/y:1"}, {11, pod("p", "CreateContainerError", "", 1), "tell p: container main: CreateContainerError"},
		}},
		{"one that crashes is stuck since its last run began, as far as is known", 0, []step{{5, loop(3), ""}, {12, nil, ""}, {13, nil, "tell p: container main: CrashLoopBackOff"}}},
		{"running in between does not help", 0, []step{{0, loop(0), ""}, {4, runs, ""}, {5, loop(4), ""}, {9, runs, ""}, {10, loop(9), "tell p: container main: CrashLoopBackOff"}}},
		{"running for ten minutes does", 0, []step{{0, loop(0), ""}, {4, runs, ""}, {14, nil, ""}, {15, loop(15), ""}, {24, nil, ""}, {25, nil, "tell p: container main: CrashLoopBackOff"}}},
		{"a pod without GPUs is nobody's business", 0, []step{{0, pod("p", "CrashLoopBackOff", "", 0), ""}, {60, nil, ""}}},
		{"a pod that waits for its volume is not stuck", 0, []step{{0, pod("p", "ContainerCreating", "", 1), ""}, {60, nil, ""}}},
		{"it is released once if the policy says so", 20 * time.Minute, []step{{0, loop(0), ""}, {10, nil, "tell p: container main: CrashLoopBackOff"}, {20, nil, "release p: container main: CrashLoopBackOff"}, {60, nil, ""}}},
		{"a pod that nobody makes anew is not released", 20 * time.Minute, []step{{0, pod("p", "ErrImagePull", "", 1), ""}, {20, nil, "tell p: container main: cannot pull image x/y:1"}, {60, nil, ""}}},
		{"nor is one of a DaemonSet", 20 * time.Minute, []step{{0, pod("p", "ErrImagePull", "DaemonSet", 1), ""}, {20, nil, "tell p: container main: cannot pull image x/y:1"}, {60, nil, ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tracker := stuck.NewTracker(stuck.Policy{Report: 10 * time.Minute, Release: tt.release})
			for _, s := range tt.steps {
				now := began.Add(time.Duration(s.minute) * time.Minute)
				if s.pod != nil {
					tracker.Saw(s.pod, now)
				}
				got := ""
				for _, a := range tracker.Acts(now) {
					what := "tell"
					if a.Release {
						what = "release"
					}
					_, why, _ := strings.Cut(a.Message, "(")
					why, _, _ = strings.Cut(why, ")")
					got += fmt.Sprint(what, " ", a.Pod.Name, ": ", why)
				}
				if diff := cmp.Diff(s.want, got); diff != "" {
					t.Errorf("minute %d (-want +got):\n%s", s.minute, diff)
				}
			}
		})
	}
}

func TestTheWatcherTellsAndDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stays, goes := pod("stays", "ErrImagePull", "", 1), pod("goes", "ErrImagePull", "Job", 1)
		goes.UID = "other"
		client := fake.NewClientset(stays, goes)
		recorder := events.NewFakeRecorder(10)
		w := stuck.NewWatcher(stuck.Policy{Report: time.Minute, Release: 2 * time.Minute}, client, recorder, func() time.Time { return began.Add(time.Hour) })
		for _, p := range []*v1.Pod{stays, goes} {
			w.Handler().OnAdd(p, true)
		}
		done := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		go func() { defer close(done); w.Run(ctx, func(err error) { t.Error(err) }) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		list, err := client.CoreV1().Pods("d").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].Name != "stays" {
			t.Errorf("left: %v, %v; want the pod without a controller", list.Items, err)
		}
		stop()
		<-done
		close(recorder.Events)
		var told []string
		for e := range recorder.Events {
			told = append(told, strings.Join(strings.Fields(e)[:2], " "))
		}
		if diff := cmp.Diff([]string{"Warning GPUsReleased", "Warning GPUsHeldStuck"}, told); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
