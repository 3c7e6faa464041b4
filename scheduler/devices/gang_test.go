package devices_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
)

// rests lets the timers of the scheduler run for a while, and it schedule.
func (r *rig) rests(d time.Duration) {
	for range 10 {
		time.Sleep(d / 10) // in a bubble
		synctest.Wait()
		r.run()
	}
}

func TestAGangWaitsUntilItIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, 4)
		pods := gangOf("g", 4, 4, "gpu=1")
		r.add(pods[:3]...)
		r.run()
		r.rests(5 * time.Second)
		want := map[string]string{}
		for i := range 3 {
			want[fmt.Sprint("g-", i)] = "waiting for 1 more pod of gang g (3 of 4 exist) [WaitingForGang]"
		}
		if diff := cmp.Diff(want, r.said); diff != "" || len(r.tried) > 0 {
			t.Errorf("%d pods tried; conditions -want +got\n%s", len(r.tried), diff)
		}
		if diff := cmp.Diff([]string{"waiting for 1 more pod of gang g (3 of 4 exist)"}, r.told); diff != "" {
			t.Errorf("events: -want +got\n%s", diff)
		}
		r.add(pods[3])
		r.run()
		if diff := cmp.Diff([]string{"g-0@n1", "g-1@n1", "g-2@n1", "g-3@n1"}, r.bound("g")); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

func TestTwoGangsThatEachFitAloneRunOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, 4)
		one, two := gangOf("one", 5, 5, "gpu=1"), gangOf("two", 6, 6, "gpu=1")
		for i := range one { // as if two people applied them at the same moment
			r.add(two[i], one[i])
			r.run()
		}
		r.add(two[5])
		r.run()
		r.rests(3 * time.Second)
		if n, m := len(r.bound("one")), len(r.bound("two")); n != 5 || m != 0 {
			t.Fatalf("%d of one and %d of two are bound", n, m)
		}
		leader := ""
		for uid, why := range r.out {
			if strings.Contains(why, "fit together") {
				leader = string(uid)
				if want := "gang two: 3 of 6 pods fit together, for the next: 2 Insufficient nvidia.com/gpu"; why != want {
					t.Errorf("%s waits for: %s; want %s", uid, why, want)
				}
			}
		}
		for i := range two {
			if name := two[i].Name; name != leader && r.said[name] != "waiting for gang two: its pods do not fit together now, and pod "+leader+" says why" {
				t.Errorf("%s says %q", name, r.said[name])
			}
		}
		before := r.tried["two-0"] + r.tried["two-1"] + r.tried["two-2"] + r.tried["two-3"] + r.tried["two-4"] + r.tried["two-5"]
		r.remove("one-0") // three are free and one more: not enough
		r.run()
		r.rests(3 * time.Second)
		if after := r.tried["two-0"] + r.tried["two-1"] + r.tried["two-2"] + r.tried["two-3"] + r.tried["two-4"] + r.tried["two-5"]; after != before {
			t.Errorf("%d more tries when one of three GPUs that are missing came free", after-before)
		}
		for i := 1; i < 5; i++ {
			r.remove(one[i].Name)
		}
		r.run()
		r.rests(3 * time.Second)
		if n := len(r.bound("two")); n != 6 {
			t.Errorf("%d of two are bound when one has gone", n)
		}
	})
}

func TestAMemberThatAFilterRefusesTakesThePlanWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, 4)
		r.refuse = func(pod *v1.Pod, node string) bool { return pod.Name == "g-2" && node == "n0" }
		r.add(gangOf("g", 4, 4, "gpu=1")...)
		r.run()
		r.rests(3 * time.Second)
		got := r.bound("g")
		if len(got) != 4 || strings.Contains(fmt.Sprint(got), "g-2@n0") {
			t.Errorf("bound: %v", got)
		}
	})
}

func TestAGangOfWhichAMemberFitsNowhereIsNotPlacedAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, 4)
		r.refuse = func(pod *v1.Pod, _ string) bool { return pod.Name == "g-2" }
		r.add(gangOf("g", 4, 4, "gpu=1")...)
		r.run()
		r.rests(10 * time.Second)
		if got := r.bound("g"); len(got) > 0 || len(r.permit) > 0 {
			t.Errorf("bound: %v, %d wait in Permit", got, len(r.permit))
		}
		if n := r.tried["g-2"]; n > 20 {
			t.Errorf("tried %d times in ten seconds", n)
		}
		// What it does not get is there for others.
		r.add(gangOf("h", 8, 8, "gpu=1")...)
		r.run()
		if n := len(r.bound("h")); n != 8 {
			t.Errorf("%d of another gang are bound", n)
		}
	})
}

func TestAMemberThatIsDeletedWhileOthersWaitSendsThemBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		pods := gangOf("g", 4, 4, "gpu=1")
		r.add(pods...)
		for len(r.permit) < 2 {
			uid := r.active[0]
			r.active = r.active[1:]
			r.cycle(r.pods[uid])
		}
		r.remove("g-3")
		r.run()
		r.rests(3 * time.Second)
		if len(r.bound("g")) > 0 || len(r.permit) > 0 {
			t.Errorf("bound: %v, %d wait in Permit", r.bound("g"), len(r.permit))
		}
		single := gangOf("single", 1, 1, "gpu=4")
		r.add(single...)
		r.run()
		if n := len(r.bound("single")); n != 1 {
			t.Error("the GPUs of a gang that waits are not free")
		}
		r.remove("single-0")
		again := gangOf("g", 5, 4, "gpu=1")[4]
		r.add(again)
		r.run()
		r.rests(3 * time.Second)
		if n := len(r.bound("g")); n != 4 {
			t.Errorf("%d bound with another member in place of the deleted one", n)
		}
	})
}

func TestANewSchedulerPlacesTheRestOfAGangFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, 4)
		r.add(gangOf("g", 6, 6, "gpu=1")...)
		sent := 0
		r.unbind = func(*v1.Pod) error {
			if sent++; sent > 3 {
				return errRefused // the scheduler was killed before these were sent
			}
			return nil
		}
		for range 6 {
			if len(r.active) > 0 {
				uid := r.active[0]
				r.active = r.active[1:]
				r.cycle(r.pods[uid])
			}
		}
		for r.settle() {
		}
		if n := len(r.bound("g")); n != 3 {
			t.Fatalf("%d bound before the restart", n)
		}
		r.unbind = func(*v1.Pod) error { return nil }
		for _, p := range r.pods { // nothing is assumed any more
			if p.Spec.NodeName == "" {
				for _, n := range r.nodes {
					r.leave(p.UID, n.node.Name)
				}
			}
		}
		r.add(gangOf("a-rival", 5, 5, "gpu=1")...)
		r.out = map[types.UID]string{}
		r.start()
		r.run()
		r.rests(3 * time.Second)
		if n, m := len(r.bound("g")), len(r.bound("a-rival")); n != 6 || m != 0 {
			t.Errorf("%d of the gang and %d of its rival are bound", n, m)
		}
	})
}

func TestABindingThatIsRefusedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		refusals := 3
		r.unbind = func(pod *v1.Pod) error {
			if pod.Name == "g-1" && refusals > 0 {
				refusals--
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, pod.Name, errRefused)
			}
			return nil
		}
		r.add(gangOf("g", 4, 4, "gpu=1")...)
		r.run()
		for uid := range r.out { // the scheduler queues it again after a while
			r.enqueue(uid)
		}
		r.run()
		for range 4 {
			for uid := range r.out {
				r.enqueue(uid)
			}
			r.rests(time.Second)
		}
		if n := len(r.bound("g")); n != 4 {
			t.Errorf("%d bound: %v", n, r.out)
		}
	})
}

func TestWorkersThatKeepOneAnotherAwayArePlannedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 8, 8, 8)
		r.refuse = func(pod *v1.Pod, node string) bool { // what the stock plugin would say
			for _, p := range r.pods {
				if p.UID != pod.UID && p.Spec.NodeName == node {
					return true
				}
			}
			for _, w := range r.permit {
				if w.node == node {
					return true
				}
			}
			return false
		}
		pods := gangOf("g", 3, 3, "gpu=1")
		for _, p := range pods {
			p.Labels = map[string]string{"job": "g"}
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}},
			}}}
		}
		r.add(pods...)
		r.run()
		if n := len(r.bound("g")); n != 3 {
			t.Errorf("%d bound: %v", n, r.out)
		}
	})
}

func TestALauncherWithoutGPUsIsPartOfThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		workers := gangOf("g", 4, 5, "gpu=1")
		launcher := gangOf("g", 5, 5)[4]
		launcher.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("65")} // more than the node has
		r.add(append(workers, launcher)...)
		r.run()
		r.rests(time.Second)
		if n := len(r.bound("g")); n != 0 {
			t.Fatalf("%d bound without the launcher", n)
		}
		r.remove("g-4")
		launcher = gangOf("g", 6, 5)[5]
		launcher.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("1")}
		r.add(launcher)
		r.run()
		r.rests(time.Second)
		if n := len(r.bound("g")); n != 5 {
			t.Errorf("%d bound: %v", n, r.out)
		}
	})
}

func TestMembersBeyondTheLeastCountGoWhenTheyFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		r.add(gangOf("g", 6, 2, "gpu=1")...)
		r.run()
		r.rests(time.Second)
		if n := len(r.bound("g")); n != 4 {
			t.Errorf("%d of six that need two are bound on four GPUs: %v", n, r.out)
		}
	})
}

func TestAnotherMemberLeadsWhenTheLeaderIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		r.add(gangOf("first", 4, 4, "gpu=1")...)
		r.run()
		r.add(gangOf("g", 4, 3, "gpu=1")...)
		r.run()
		r.rests(3 * time.Second)
		leader := ""
		for uid, why := range r.out {
			if strings.Contains(why, "fit together") {
				leader = string(uid)
			}
		}
		r.remove(leader)
		r.run()
		r.rests(3 * time.Second)
		for i := range 4 {
			if name := fmt.Sprint("g-", i); name != leader && strings.Contains(r.said[name], leader) && !strings.Contains(r.out[types.UID(name)], "fit together") {
				t.Errorf("%s says %q of a leader that is gone", name, r.said[name])
			}
			r.remove(fmt.Sprint("first-", i))
		}
		r.run()
		r.rests(3 * time.Second)
		if n := len(r.bound("g")); n != 3 {
			t.Errorf("%d bound when there is room: %v", n, r.out)
		}
	})
}

func TestTheOthersOfAGangThatCannotFitAreNeverTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, 4)
		r.add(gangOf("huge", 100, 100, "gpu=1")...)
		for i := range 50 {
			single := gangOf(fmt.Sprint("s", i), 1, 1, "gpu=1")
			r.add(single...)
			r.run()
			r.remove(single[0].Name)
			r.run()
		}
		tries := 0
		for _, n := range r.tried {
			tries += n
		}
		if tries > 51 {
			t.Errorf("%d tries for 50 pods and a gang that never fits", tries)
		}
	})
}

func TestOfPodsThatCannotBeUnderstoodNoneIsPlaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		pods := gangOf("g", 2, 2, "gpu=1")
		delete(pods[0].Annotations, api.AnnotationGangMinCount)
		r.add(pods...)
		r.run()
		r.rests(5 * time.Second)
		want := map[string]string{
			"g-0": "gang g: its size is not set: add the annotation berth.dev/gang-min-count to its pods [InvalidRequest]",
			"g-1": "waiting for 1 more pod of gang g (1 of 2 exist) [WaitingForGang]",
		}
		if diff := cmp.Diff(want, r.said); diff != "" || len(r.tried) > 0 {
			t.Errorf("%d tried; conditions -want +got\n%s", len(r.tried), diff)
		}
		r.update("g-0", func(p *v1.Pod) { p.Annotations = gangOf("g", 1, 2)[0].Annotations })
		r.run()
		r.rests(time.Second)
		if n := len(r.bound("g")); n != 2 {
			t.Errorf("%d bound when it can be understood: %v", n, r.out)
		}
	})
}

// TestAGangStaysInItsRack has a gang with more members than fit one rack, in which it must
// be.
func TestAGangStaysInItsRack(t *testing.T) {
	r := newRig(t, 2, 2, 2)
	for i, rack := range []string{"r0", "r0", "r1"} {
		r.nodes[i].node.Labels = map[string]string{"berth.dev/rack": rack}
	}
	pods := gangOf("g", 6, 2, "gpu=1")
	for _, p := range pods {
		p.Annotations[api.AnnotationTopology] = "rack"
	}
	r.add(pods...)
	r.run()
	racks := map[string]bool{}
	for _, at := range r.bound("g") {
		_, node, _ := strings.Cut(at, "@")
		racks[map[string]string{"n0": "r0", "n1": "r0", "n2": "r1"}[node]] = true
	}
	if len(racks) != 1 {
		t.Errorf("bound: %v, in %d racks", r.bound("g"), len(racks))
	}
}
