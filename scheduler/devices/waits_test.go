package devices_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/scheduler/devices"
)

// condition is what a pod of a rig says of why it has no node.
func (r *rig) condition(name string) string {
	for _, c := range r.pods[types.UID(name)].Status.Conditions {
		return c.Reason + ": " + c.Message
	}
	return ""
}

// TestAPodThatYieldsIsToldWhenThereIsNoRoomAfterAll: a pod for which there is room
// leaves it to the first of its line. While that is to come no node helps; when it
// is refused, both wait for room.
func TestAPodThatYieldsIsToldWhenThereIsNoRoomAfterAll(t *testing.T) {
	n := t4Node(t, "n", 1, gpu.Sharing{})
	full := &info{node: n, generation: 1, pods: []*v1.Pod{onNode(asking("x", "", "gpu=1"), "n")}}
	h := &handle{nodes: []*info{full}}
	plugin, waiting := both(t, h)
	first, late, last := asking("first", "", "gpu=1"), asking("late", "", "gpu=1"), asking("last", "", "gpu=1")
	late.CreationTimestamp, last.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	try := func(p *v1.Pod, want queue.Wait) {
		t.Helper()
		if _, status := plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, p, h.list()); status.IsSuccess() {
			t.Fatalf("pod %s is given a node", p.Name)
		}
		if got := devices.WaitOf(plugin, p); got != want {
			t.Errorf("pod %s has the wait %q, want %q", p.Name, got.Code(), want.Code())
		}
	}
	try(first, queue.Room)
	try(last, queue.Room)
	h.nodes[0] = &info{node: n, generation: 2}
	try(late, queue.Turn)
	if err := devices.Hold(t.Context(), plugin, asking("gang", "", "gpu=1"), "n", 0); err != nil { // it is full again
		t.Fatal(err)
	}
	if waiting.PreEnqueue(t.Context(), late).IsSuccess() {
		t.Error("while the first is to come, the pod that yields is tried")
	}
	clear(h.activated)
	try(first, queue.Room)
	if !h.activated["late"] || h.activated["last"] || !waiting.PreEnqueue(t.Context(), late).IsSuccess() || waiting.PreEnqueue(t.Context(), last).IsSuccess() {
		t.Errorf("after the first was refused, called are %v, want the pod that yielded alone, which is tried", h.activated)
	}
	try(late, queue.Room)
	if waiting.PreEnqueue(t.Context(), late).IsSuccess() {
		t.Error("the pod that yielded is tried again and again")
	}
}

func TestARequestThatCannotBeUnderstoodWaitsForNoNode(t *testing.T) {
	plugin, _ := both(t, &handle{nodes: []*info{{node: t4Node(t, "n", 1, gpu.Sharing{}), generation: 1}}})
	p := asking("p", "")
	p.Annotations = map[string]string{api.AnnotationKAIFraction: "two"}
	_, status := plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, p, nil)
	if got := devices.WaitOf(plugin, p); status.IsSuccess() || got != queue.Invalid {
		t.Errorf("%v, and it has the wait %q; want it refused as %q", status, got.Code(), queue.Invalid.Code())
	}
}

func TestAPodThatAFilterRefusesIsTriedAgainFirst(t *testing.T) {
	r := newRig(t, 1, 1)
	r.refuse = func(*v1.Pod, string) bool { return true }
	var waits []queue.Wait
	r.post = func(s *state, pod *v1.Pod, _ *fwk.Status) {
		if _, status := r.plans.PostFilter(t.Context(), s, pod, nil); status.Code() == fwk.Unschedulable {
			r.devs.PostFilter(t.Context(), s, pod, nil)
		}
		waits = append(waits, devices.WaitOf(r.devs, pod))
	}
	r.add(asking("p", "", "gpu=1"))
	r.run()
	if len(waits) != 2 || waits[0] != queue.Retry || !waits[1].NodeHelps() {
		t.Errorf("waits %v, want %v and then one that a node ends", waits, queue.Retry)
	}
}

// TestMembersAskForNodesWhenTheirGangIsComplete goes through what a gang waits for.
func TestMembersAskForNodesWhenTheirGangIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		pods := gangOf("g", 3, 3, "gpu=1")
		r.add(pods[:2]...)
		r.run()
		r.rests(5 * time.Second)
		for _, name := range []string{"g-0", "g-1"} {
			if got, want := r.condition(name), "SchedulingGated: waiting for 1 more pod of gang g (2 of 3 exist) [WaitingForGang]"; got != want {
				t.Errorf("%s of an incomplete gang: %q, want %q", name, got, want)
			}
		}
		r.add(pods[2])
		r.run()
		r.rests(5 * time.Second)
		leader, others := "", 0
		for _, p := range pods {
			switch got := r.condition(p.Name); {
			case strings.HasPrefix(r.out[p.UID], "gang g: 2 of 3 pods fit together"):
				leader = p.Name
				if wait := devices.WaitOf(r.devs, r.pods[p.UID]); wait != queue.Room {
					t.Errorf("the leader has the wait %q, want that for room", wait.Code())
				}
			case strings.HasPrefix(got, "Unschedulable: waiting for gang g: its pods do not fit together now") && !strings.Contains(got, "["):
				others++
			}
		}
		if leader == "" || others != 2 {
			t.Errorf("of a gang that is complete and does not fit %q leads, and %d others ask for a node; want 2: %v", leader, others, r.said)
		}
		r.remove("g-1")
		r.run()
		r.rests(5 * time.Second)
		for _, name := range []string{"g-0", "g-2"} {
			if got := r.condition(name); !strings.HasPrefix(got, "SchedulingGated: waiting for 1 more pod") {
				t.Errorf("%s of a gang that is incomplete again: %q", name, got)
			}
		}
	})
}

func TestWhileVictimsEndNoNodeIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMaking(t, 1, 2)
		m.add(ranked("a", 1, "gpu=1"), ranked("b", 1, "gpu=2"))
		m.run()
		m.add(ranked("high", 9, "gpu=1"))
		m.run()
		want(t, "evicted", m.evicted, "a")
		if got := devices.WaitOf(m.devs, m.pods["high"]); got != queue.Preemption {
			t.Errorf("while its victim ends the pod has the wait %q", got.Code())
		}
		m.enqueue("high")
		m.run()
		if got := devices.WaitOf(m.devs, m.pods["high"]); got != queue.Preemption {
			t.Errorf("tried again while its victim ends, the pod has the wait %q", got.Code())
		}
		gang := gangOf("g", 2, 2, "gpu=1")
		for _, p := range gang {
			p.Spec.Priority = new(int32(5))
		}
		m.add(gang...)
		m.rests(5 * time.Second)
		want(t, "evicted", m.evicted, "a b")
		told := 0
		for _, p := range gang {
			if got := m.condition(p.Name); strings.HasPrefix(got, "SchedulingGated: ") && strings.HasSuffix(got, "[WaitingForPreemption]") {
				told++
			} else if got != "" {
				t.Errorf("%s of a gang that room is made for: %q", p.Name, got)
			}
			if got := devices.WaitOf(m.devs, m.pods[p.UID]); m.answers[p.Name] != "" && got != queue.Preemption {
				t.Errorf("the leader %s has the wait %q", p.Name, got.Code())
			}
		}
		if told != 1 {
			t.Errorf("%d of the gang say that they wait for victims, want the one that does not lead: %v", told, m.said)
		}
	})
}
