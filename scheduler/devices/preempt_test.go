package devices_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/test/soak"
)

// want compares lists of words, in any order.
func want(t *testing.T, what string, got []string, words string) {
	t.Helper()
	got = slices.Sorted(slices.Values(got))
	if diff := cmp.Diff(strings.Fields(words), got); diff != "" && len(got)+len(words) > 0 {
		t.Errorf("%s: -want +got\n%s", what, diff)
	}
}

func TestAPodOfHigherPriorityGetsWhatItsVictimLeaves(t *testing.T) {
	m := newMaking(t, 2)
	m.add(ranked("low", 1, "gpu=1"), ranked("mid", 5, "gpu=1"))
	m.run()
	want(t, "bound", m.on(), "low@n0 mid@n0")
	left := uuids(m.pods["low"].Annotations[api.AnnotationDevices])

	m.add(ranked("high", 9, "gpu=1"))
	m.run()
	want(t, "evicted", m.evicted, "low")
	if got := m.answers["high"]; got != "preemption: waiting for 1 pod on node n0 to end" || m.nominated["high"] != "n0" {
		t.Errorf("said %q, nominated %q", got, m.nominated["high"])
	}
	if diff := cmp.Diff([]string{"Preempted by pod high on node n0, for pod d/high of priority 9"}, m.told); diff != "" {
		t.Errorf("events: -want +got\n%s", diff)
	}

	// While the victim ends nobody else is evicted, however often it is tried.
	for range 3 {
		m.enqueue("high")
		m.run()
	}
	want(t, "evicted", m.evicted, "low")

	// What it leaves is not for those that come meanwhile.
	m.remove("low")
	m.active = nil
	m.add(ranked("thief", 5, "gpu=1"))
	m.run()
	want(t, "bound before the pod is tried", m.on(), "mid@n0")
	m.enqueue("high")
	m.run()
	want(t, "bound", m.on(), "high@n0 mid@n0")
	if diff := cmp.Diff(left, uuids(m.pods["high"].Annotations[api.AnnotationDevices])); diff != "" {
		t.Errorf("devices: -victim's +pod's\n%s", diff)
	}
}

func TestWhenTheLastVictimIsGoneThePodIsTriedAtOnce(t *testing.T) {
	m := newMaking(t, 2)
	m.add(ranked("a", 1, "gpu=1"), ranked("b", 1, "gpu=1"))
	m.run()
	m.add(ranked("high", 9, "gpu=2"))
	m.run()
	want(t, "evicted", m.evicted, "a b")
	m.remove("a")
	m.run()
	want(t, "bound with one victim left", m.on(), "b@n0")
	m.active = nil
	m.remove("b")
	m.run()
	want(t, "bound", m.on(), "high@n0")
}

func TestWhoMayNotPreemptWaits(t *testing.T) {
	m := newMaking(t, 1)
	m.add(ranked("low", 1, "gpu=1"))
	m.run()
	patient, equal, cpu := ranked("patient", 9, "gpu=1"), ranked("equal", 1, "gpu=1"), ranked("large", 9, "gpu=2")
	patient.Spec.PreemptionPolicy = new(v1.PreemptNever)
	m.add(patient, equal, cpu)
	m.run()
	want(t, "evicted", m.evicted, "")
	said := map[string]string{
		"patient": "preemption: not eligible due to preemptionPolicy=Never.",
		"equal":   "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
		"large":   "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
	}
	if diff := cmp.Diff(said, m.answers); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	_, status := m.room.PostFilter(t.Context(), &state{}, asking("none", ""), statuses{fwk.NewStatus(fwk.Unschedulable)})
	if status.Code() != fwk.Unschedulable || status.Message() != "" {
		t.Errorf("a pod without GPUs: %v %q, want it left to the stock preemption", status.Code(), status.Message())
	}
}

func TestABudgetIsKeptUntilItAllowsMore(t *testing.T) {
	m := newMaking(t, 1)
	low := ranked("low", 1, "gpu=1")
	low.Labels = map[string]string{"app": "kept"}
	m.add(low)
	m.run()
	m.protect("b", "kept", 0)
	m.add(ranked("high", 9, "gpu=1"))
	m.run()
	want(t, "evicted", m.evicted, "")
	if got := m.answers["high"]; got != "preemption: 0/1 nodes are available: 1 victims are kept by a disruption budget or a gang." {
		t.Error(got)
	}
	m.protect("b", "kept", 1)
	m.run()
	want(t, "evicted", m.evicted, "low")
}

// TestASearchIsRepeatedForPodsThatABudgetNoLongerCounts changes the labels of a pod, which
// changes neither a device nor a budget.
func TestASearchIsRepeatedForPodsThatABudgetNoLongerCounts(t *testing.T) {
	m := newMaking(t, 1)
	low := ranked("low", 1, "gpu=1")
	low.Labels = map[string]string{"app": "kept"}
	m.add(low)
	m.run()
	m.protect("b", "kept", 0)
	m.add(ranked("high", 9, "gpu=1"))
	m.run()
	want(t, "evicted", m.evicted, "")
	m.update("low", func(p *v1.Pod) { p.Labels = nil })
	m.enter(m.pods["low"], "n0")
	m.enqueue("high")
	m.run()
	want(t, "evicted", m.evicted, "low")
}

// TestASearchIsRepeatedForAPodThatTheAPIServerKept has a pod arrive while the victim may not
// be tried again: when it may, nothing has changed in the API.
func TestASearchIsRepeatedForAPodThatTheAPIServerKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMaking(t, 1)
		m.keeps["low"] = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "low", nil)
		m.add(ranked("low", 1, "gpu=1"))
		m.run()
		m.add(ranked("high", 9, "gpu=1"))
		m.rests(30 * time.Second)
		m.add(ranked("later", 10, "gpu=1"))
		m.rests(10 * time.Second)
		m.remove("high")
		delete(m.keeps, "low")
		m.rests(10 * time.Second)
		want(t, "evicted within the minute", m.evicted, "")
		m.rests(time.Minute)
		want(t, "evicted", m.evicted, "low")
	})
}

func TestASearchThatFoundNothingIsNotRepeated(t *testing.T) {
	m := newMaking(t, 2, 2)
	m.add(ranked("low", 1, "gpu=1"), ranked("a", 9, "gpu=1"), ranked("b", 9, "gpu=2"))
	m.run()
	m.add(ranked("high", 9, "gpu=2"))
	m.run()
	before := m.tried["high"]
	reads := 0
	for i, n := range m.nodes {
		m.nodes[i] = &info{node: n.node, pods: n.pods, generation: n.generation, read: &reads}
	}
	m.still = true
	for range 100 {
		m.enqueue("high")
		m.run()
	}
	if m.tried["high"] != before+100 || reads > 0 || len(m.evicted) > 0 {
		t.Errorf("tried %d times more, nodes read %d times, evicted %v: want 100, 0 and nobody", m.tried["high"]-before, reads, m.evicted)
	}
}

func TestARestartedSchedulerEvictsNobodyTwice(t *testing.T) {
	m := newMaking(t, 1, 1)
	m.add(ranked("a", 1, "gpu=1"), ranked("b", 1, "gpu=1"))
	m.run()
	m.add(ranked("high", 9, "gpu=1"))
	m.run()
	if len(m.evicted) != 1 {
		t.Fatalf("evicted %v, want one", m.evicted)
	}
	m.restart()
	m.run()
	if len(m.evicted) != 1 {
		t.Fatalf("evicted %v after the restart, want the same one", m.evicted)
	}
	gone := m.evicted[0]
	if got := m.answers["high"]; !strings.HasPrefix(got, "preemption: waiting for 1 pod on node ") {
		t.Error(got)
	}
	m.remove(gone)
	m.run()
	if m.pods["high"].Spec.NodeName == "" {
		t.Error("the pod waits with its room made")
	}
}

func TestAPodWhoseRoomFailsLooksForAnother(t *testing.T) {
	m := newMaking(t, 1, 1)
	m.add(ranked("a", 1, "gpu=1"), ranked("b", 2, "gpu=1"))
	m.run()
	at := m.pods["a"].Spec.NodeName
	m.add(ranked("high", 9, "gpu=1"))
	m.run()
	want(t, "evicted", m.evicted, "a")
	for i, n := range m.nodes {
		if n.node.Name == at { // its GPU fails
			broken := n.node.DeepCopy()
			broken.Annotations[api.AnnotationInventory] = strings.ReplaceAll(broken.Annotations[api.AnnotationInventory], `"healthy":true`, `"healthy":false`)
			m.nodes[i] = &info{node: broken, pods: n.pods, generation: n.generation + 1}
		}
	}
	m.remove("a")
	m.run()
	want(t, "evicted", m.evicted, "a b")
	m.remove("b")
	m.run()
	if p := m.pods["high"]; p.Spec.NodeName == "" || p.Spec.NodeName == at {
		t.Errorf("bound to %q, want the other node", p.Spec.NodeName)
	}
}

func TestAVictimThatTheAPIServerKeepsIsNotTheLast(t *testing.T) {
	m := newMaking(t, 2)
	m.keeps["a"] = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", nil)
	m.add(ranked("a", 1, "gpu=1"), ranked("b", 2, "gpu=1"))
	m.run()
	m.add(ranked("high", 9, "gpu=1"))
	m.run()
	want(t, "evicted", m.evicted, "b")
	m.remove("b")
	m.run()
	want(t, "bound", m.on(), "a@n0 high@n0")
}

func TestNobodyGoesForANodeThatAnotherFilterRefuses(t *testing.T) {
	m := newMaking(t, 1, 1)
	m.add(ranked("a", 1, "gpu=1"), ranked("b", 2, "gpu=1"))
	m.run()
	at := m.pods["a"].Spec.NodeName
	m.refuses = func(_ *v1.Pod, n *info) bool { return n.node.Name == at }
	m.add(ranked("high", 9, "gpu=1"))
	m.run()
	want(t, "evicted", m.evicted, "b")
	m.refuses = func(*v1.Pod, *info) bool { return true }
	m.add(ranked("higher", 10, "gpu=1"))
	m.run()
	want(t, "evicted", m.evicted, "b")
	if got := m.answers["higher"]; !strings.HasPrefix(got, "preemption: ") || m.nominated["higher"] != "" {
		t.Errorf("said %q, nominated %q", got, m.nominated["higher"])
	}
}

// TestTwoWhomAnotherFilterRefusesDoNotWakeOneAnother has two lines whose first finds
// room that it may not use: what each held while it asked is nothing to the other.
func TestTwoWhomAnotherFilterRefusesDoNotWakeOneAnother(t *testing.T) {
	m := newMaking(t, 2)
	m.add(ranked("a", 1, "gpu=1"), ranked("b", 2, "gpu=1"))
	m.run()
	m.refuses = func(*v1.Pod, *info) bool {
		if m.asked > 100 {
			t.Fatal("the two are tried again and again, and nothing has changed")
		}
		return true
	}
	m.add(ranked("one", 9, "gpu=1"), ranked("two", 9, "gpu=2"))
	m.run()
	want(t, "evicted", m.evicted, "")
	if !m.room.Waits("one") || !m.room.Waits("two") {
		t.Error("who found room that it may not use has left its line")
	}
}

func TestOfHigherPriorityStillTheRoomIsTakenOver(t *testing.T) {
	m := newMaking(t, 1)
	m.add(ranked("low", 1, "gpu=1"))
	m.run()
	m.add(ranked("high", 9, "gpu=1"))
	m.run()
	m.add(ranked("higher", 10, "gpu=1"))
	m.run()
	want(t, "evicted", m.evicted, "low")
	m.remove("low")
	m.run()
	want(t, "bound", m.on(), "higher@n0")
	if got := m.answers["high"]; !strings.Contains(got, "1 No preemption victims found for incoming pod") {
		t.Error(got)
	}
}

// TestAPodWhoseRoomIsTakenOverLooksForAnotherAtOnce has a pod lose the room that is made for
// it while its victim still ends: it does not wait for the end.
func TestAPodWhoseRoomIsTakenOverLooksForAnotherAtOnce(t *testing.T) {
	m := newMaking(t, 1, 1)
	m.add(ranked("a", 1, "gpu=1"), ranked("b", 2, "gpu=1"))
	m.run()
	at := m.pods["a"].Spec.NodeName
	m.refuses = func(pod *v1.Pod, n *info) bool { return pod.Name == "higher" && n.node.Name != at }
	m.add(ranked("high", 9, "gpu=1"))
	m.run()
	want(t, "evicted", m.evicted, "a")
	m.add(ranked("higher", 10, "gpu=1"))
	m.run()
	want(t, "evicted with a still there", m.evicted, "a b")
}

func TestAGangMakesRoomForAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMaking(t, 2, 2)
		m.add(ranked("a", 1, "gpu=1"), ranked("b", 1, "gpu=1"), ranked("c", 1, "gpu=1"), ranked("kept", 9, "gpu=1"))
		m.run()
		four, three := gangOf("four", 4, 4, "gpu=1"), gangOf("three", 3, 3, "gpu=1")
		for _, p := range append(four, three...) {
			p.Spec.Priority = new(int32(5))
		}
		m.add(four...)
		m.run()
		want(t, "evicted for four, of whom three have room", m.evicted, "")
		for _, p := range four {
			m.remove(p.Name)
		}
		m.add(three...)
		m.rests(5 * time.Second)
		want(t, "evicted", m.evicted, "a b c")
		for i, name := range []string{"a", "b", "c"} {
			want(t, fmt.Sprint("bound with ", 3-i, " left"), m.bound("three"), "")
			m.remove(name)
			m.rests(time.Second)
		}
		if n := len(m.bound("three")); n != 3 {
			t.Errorf("%d of the gang are bound: %v", n, m.out)
		}
		want(t, "evicted", m.evicted, "a b c")
	})
}

func TestAGangGoesAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMaking(t, 2, 2)
		gang := gangOf("g", 4, 4, "gpu=1")
		for _, p := range gang {
			p.Spec.Priority = new(int32(1))
		}
		m.add(gang...)
		m.run()
		if n := len(m.bound("g")); n != 4 {
			t.Fatalf("%d of the gang are bound", n)
		}
		m.add(ranked("high", 9, "gpu=1"))
		m.run()
		if len(m.evicted) != 4 {
			t.Errorf("evicted %v, want the gang", m.evicted)
		}
	})
}

// TestManyComeAndGo lets pods of all priorities come and end, and devices fail and
// recover: no device is given twice (see rig.bind), it always comes to rest, and
// what is kept of the nodes is what they are (see postFilter).
func TestManyComeAndGo(t *testing.T) {
	evicted := 0
	for seed := range soak.Pick[uint64](25, 40) {
		r := rand.New(rand.NewPCG(seed, 7))
		m := newMaking(t, 1+r.IntN(3), 1+r.IntN(3), 1+r.IntN(3))
		for step := range 60 {
			switch names := m.on(); {
			case r.IntN(3) > 0 || len(names) == 0:
				p := ranked(fmt.Sprint("p", step), int32(r.IntN(5)), fmt.Sprint("gpu=", 1+r.IntN(2)))
				p.Status.StartTime.Time = time.Unix(int64(r.IntN(1e6)), 0)
				m.add(p)
			case r.IntN(2) == 0:
				i := r.IntN(len(m.nodes))
				n := m.nodes[i].node.DeepCopy()
				from, to := `"healthy":true`, `"healthy":false`
				if r.IntN(2) == 0 {
					from, to = to, from
				}
				n.Annotations[api.AnnotationInventory] = strings.Replace(n.Annotations[api.AnnotationInventory], from, to, 1)
				m.nodes[i] = &info{node: n, pods: m.nodes[i].pods, generation: m.nodes[i].generation + 1}
			default:
				name, _, _ := strings.Cut(names[r.IntN(len(names))], "@")
				m.remove(name)
			}
			m.run()
			for _, name := range m.evicted { // they end
				if m.pods[types.UID(name)] != nil && r.IntN(2) == 0 {
					m.remove(name)
				}
			}
			m.run()
		}
		evicted += len(m.evicted)
	}
	if evicted < 100 {
		t.Errorf("%d were evicted: too few to tell", evicted)
	}
}

// TestNoPodIsEvictedForOneThatIsGone deletes a pod while room is looked for.
func TestNoPodIsEvictedForOneThatIsGone(t *testing.T) {
	m := newMaking(t, 2)
	m.add(ranked("low", 0, "gpu=2"))
	m.run()
	high := ranked("high", 10, "gpu=2")
	m.add(high)
	m.gone = map[string]bool{"high": true} // its event has passed, and its cycle goes on
	m.run()
	if len(m.evicted) > 0 {
		t.Errorf("evicted %v for a pod that is gone", m.evicted)
	}
}
