package allocation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/allocation/notice"
)

// promises writes what Promised gives of some GPUs, in the order of their numbers.
func (w *world) promises(gpus ...int) string {
	w.t.Helper()
	got, err := w.node.Pending(context.Background())
	w.must(err)
	out := ""
	for _, i := range gpus {
		out += fmt.Sprintf("%d %v; ", i, got[w.uuid(i)])
	}
	return out
}

func TestACommitmentIsAPromiseUntilThePodStartsOrGoes(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	p := commits(pod("p", asks("a", whole, 1), asks("b", whole, 1)), map[string][]string{"a": {w.uuid(1)}, "b": {w.uuid(0)}})
	q := commits(pod("q", asks("c", memory, 6)), map[string][]string{"c": {w.uuid(1) + " 150 6442450944"}})
	broken := commits(pod("broken", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	broken.Annotations["berth.dev/devices"] = "{"
	w.pods.put(p, false) // the watch has not told of it yet
	w.pods.put(q, true)
	w.pods.put(broken, true)
	w.pods.put(pod("none", asks("c", whole, 1)), true)
	if got := w.promises(0, 1); got != "0 [default/p]; 1 [default/p default/q]; " {
		t.Errorf("promised are %s", got)
	}
	w.must(w.admit(p))
	w.runs(p, "a", "1")
	if got := w.promises(0, 1); got != "0 []; 1 [default/q]; " {
		t.Errorf("after the start of p, promised are %s", got)
	}
	w.tidy()
	for len(w.node.HoldersChanged()) > 0 {
		<-w.node.HoldersChanged()
	}
	w.tidy()
	if len(w.node.HoldersChanged()) != 0 {
		t.Error("Held has a value, and nothing has changed")
	}
	w.end(q)
	if len(w.node.HoldersChanged()) != 1 {
		t.Error("Held has no value, though a pod has gone without having started")
	}
	if got := w.promises(0, 1); got != "0 []; 1 []; " {
		t.Errorf("after the end of q, promised are %s", got)
	}
	w.pods.err = errors.New("the API server is away")
	if _, err := w.node.Pending(context.Background()); err == nil {
		t.Error("without the API server it is known what is promised")
	}
	w.pods.err = nil
	w.options.Kubelet = true
	w.start()
	w.pods.put(q, true)
	if got := w.promises(0, 1); got != "0 []; 1 []; " {
		t.Errorf("in mode kubelet, which honors no commitments, promised are %s", got)
	}
}

// Somebody waits until nobody has GPU 1: pods that he has seen start there, so that the
// waiting has an end; others do not, so that none is there when it has ended.
func TestOnADrainedGPUStartThoseAloneWhoAreWaitedFor(t *testing.T) {
	w := seeing(t, product(t, a100, 3)).start()
	drain := func(uuids ...string) {
		clear(w.healthy)
		well := map[string]bool{}
		for _, uuid := range uuids {
			w.healthy[uuid], well[uuid] = false, true
		}
		w.node.SetDraining(well)
		w.set()
	}
	on1 := func(name string) *v1.Pod {
		p := commits(pod(name, asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
		w.must(w.admit(p))
		return p
	}
	waits := func(p *v1.Pod) {
		t.Helper()
		w.refused(p, "c", notice.ReasonUnhealthy, "is unhealthy: the container starts automatically once it is healthy")
	}
	early := on1("early")
	drain(w.uuid(1))
	waits(early) // it is not seen yet
	if got := w.promises(1); got != "1 [default/early]; " {
		t.Errorf("promised are %s", got)
	}
	late := on1("late")
	waits(late)
	if other := pod("other", asks("c", whole, 3)); w.admit(other) == nil {
		t.Error("the kubelet is offered three GPUs, and one of them is drained")
	}
	w.runs(early, "c", "1")
	w.promises(1)
	w.runs(early, "c", "1") // it crashed, and starts again
	w.start()
	drain(w.uuid(1))
	w.runs(early, "c", "1")
	w.promises(1)
	w.end(early)
	w.pods.remove("uid-late", false)
	w.promises(1)
	waits(late) // it is seen no more
	// One that is ill is ill for all.
	w.pods.put(late, true)
	w.promises(1)
	w.node.SetDraining(map[string]bool{})
	waits(late)
	drain()
	w.runs(late, "c", "1")
}
