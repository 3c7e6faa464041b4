package reserve

import (
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestRooms(t *testing.T) {
	r := NewRooms()
	high, low, last := podOf("high"), podOf("low"), podOf("last")
	m := &Room{Pods: []*v1.Pod{high}, waits: map[string]map[types.UID]bool{}, left: map[types.UID]bool{}}
	m.Wait("n1", low)
	m.Wait("n1", last)
	r.Open(m)
	if got := m.Sentence(2); got != "preemption: waiting for 2 pods on node n1 to end" {
		t.Error(got)
	}
	if ready := r.Gone(low.UID); len(ready) != 0 {
		t.Errorf("ready %v with one left", ready)
	}
	if ready := r.Gone(last.UID); len(ready) != 1 || ready["d/high"] != high {
		t.Errorf("ready %v, want the pod that waited", ready)
	}
	if r.Shut(high.UID); r.Of(high.UID) != nil {
		t.Error("a room that is shut is still there")
	}
}

// TestRoomsOfPodsThatStay has an eviction fail on whose end two rooms count, one of them a reservation.
func TestRoomsOfPodsThatStay(t *testing.T) {
	r, stays, other := NewRooms(), podOf("stays"), podOf("other")
	open := func(of string, reserved bool, waits ...*v1.Pod) {
		m := NewRoom()
		m.Pods, m.Reserved = []*v1.Pod{podOf(of)}, reserved
		for _, pod := range waits {
			m.Wait("n1", pod)
		}
		r.Open(m)
	}
	open("counts", false, stays, other)
	open("reserves", true, stays)
	open("elsewhere", false, other)
	got := r.Stay([]*v1.Pod{stays})
	if len(got) != 1 || got[0].Name != "counts" {
		t.Errorf("%d pods are called, want the one that counts on the end", len(got))
	}
	for of, want := range map[string]bool{"counts": false, "reserves": true, "elsewhere": true} {
		if got := r.Of(podOf(of).UID) != nil; got != want {
			t.Errorf("the room of %s is there: %v, want %v", of, got, want)
		}
	}
}

// TestARoomOpensWhileItsVictimsGo has victims go at the same moment: what open says is
// of when it opened, and nobody changes it meanwhile.
func TestARoomOpensWhileItsVictimsGo(t *testing.T) {
	victims := []*v1.Pod{podOf("a"), podOf("b"), podOf("c")}
	for range 100 {
		r, ready, again := NewRooms(), 0, 0
		m := &Room{Pods: []*v1.Pod{podOf("high")}, waits: map[string]map[types.UID]bool{}, left: map[types.UID]bool{}}
		for _, pod := range victims {
			m.Wait("n1", pod)
		}
		var going sync.WaitGroup
		going.Go(func() {
			for _, pod := range victims {
				ready += len(r.Gone(pod.UID))
			}
		})
		if left := r.Open(m); left != len(victims) {
			t.Fatalf("the room waits for %d when it opens, want %d", left, len(victims))
		}
		for _, pod := range victims { // those that went before it opened are told of again
			again += len(r.Gone(pod.UID))
		}
		going.Wait()
		if ready+again != 1 {
			t.Fatalf("%d pods are called when the last victim has gone, want the one that waits", ready+again)
		}
	}
}

// podOf is a pod by its name.
func podOf(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID("uid-" + name), Generation: 3}, Spec: v1.PodSpec{SchedulerName: "default-scheduler"}}
}
