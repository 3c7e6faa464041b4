package queue_test

import (
	"testing"

	"berth.dev/berth/core/queue"
)

// TestWaits has every wait that there is: whether a new node would end it, and its
// code where none would.
func TestWaits(t *testing.T) {
	offered := func(r queue.Refused) queue.Refused {
		r.Offered = true
		return r
	}
	const none = ""
	for _, test := range []struct {
		name    string
		refused queue.Refused
		code    string // "" is that a node helps
	}{
		{"no node has enough free", offered(queue.Refused{Noted: queue.Room}), none},
		{"no node has enough free, and pools are declared that could grow", offered(queue.Refused{Noted: queue.Room, Declared: true}), none},
		{"pods before it in its line take all that is free", offered(queue.Refused{Noted: queue.Room}), none},
		{"its gang is complete and does not fit", offered(queue.Refused{Noted: queue.Room}), none},
		{"a filter refuses every node, such as anti-affinity", offered(queue.Refused{Reasons: []string{"node(s) didn't match pod anti-affinity rules"}}), none},
		{"a volume is in another zone than the free GPUs", offered(queue.Refused{Reasons: []string{"node(s) had volume node affinity conflict"}}), none},
		{"an unknown plugin refuses it before any node", offered(queue.Refused{By: "Coscheduling"}), none},
		{"there are no nodes", queue.Refused{}, none},
		{"no node has such a device, and no pools are declared", queue.Refused{Noted: queue.Room}, none},
		{"no node and no declared pool has such a device", queue.Refused{Noted: queue.Room, Declared: true}, "NoSuchNode"},
		{"pods of its gang are missing", queue.Refused{Noted: queue.Gang}, "WaitingForGang"},
		{"pods of its gang are missing, and no pool has such a device", queue.Refused{Noted: queue.Gang, Declared: true}, "WaitingForGang"},
		{"another of its line comes first", offered(queue.Refused{Noted: queue.Turn}), "WaitingForTurn"},
		{"pods are evicted for it", offered(queue.Refused{Noted: queue.Preemption}), "WaitingForPreemption"},
		{"it is nominated by the stock preemption", offered(queue.Refused{Nominated: true, Reasons: []string{"Insufficient cpu"}}), "WaitingForPreemption"},
		{"it is tried on all nodes next", offered(queue.Refused{Noted: queue.Retry}), "WaitingForRetry"},
		{"its request is malformed", offered(queue.Refused{Noted: queue.Invalid}), "InvalidRequest"},
		{"its affinity contradicts itself", offered(queue.Refused{By: "NodeAffinity"}), "InvalidRequest"},
		{"its volume claim is missing or unbound", offered(queue.Refused{By: "VolumeBinding"}), "WaitingForVolume"},
		{"its storage class is missing", offered(queue.Refused{By: "VolumeZone"}), "WaitingForVolume"},
		{"its volume is used by another pod", offered(queue.Refused{Reasons: []string{"Insufficient cpu", "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"}}), "WaitingForVolume"},
		{"its volume is gone", offered(queue.Refused{Reasons: []string{"node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"}}), "WaitingForVolume"},
		{"its resource claim is missing", offered(queue.Refused{By: "DynamicResources"}), "WaitingForClaim"},
		{"the device class of its claim is missing", offered(queue.Refused{Reasons: []string{"request gpu: device class x does not exist"}}), "WaitingForClaim"},
	} {
		got := test.refused.Wait()
		if got.Code() != test.code || got.NodeHelps() != (test.code == none) {
			t.Errorf("%s: code %q, a node helps: %v; want code %q", test.name, got.Code(), got.NodeHelps(), test.code)
		}
	}
}

func TestMark(t *testing.T) {
	for _, test := range []struct {
		wait     queue.Wait
		sentence string
		want     string
	}{
		{queue.Gang, "waiting for 1 more pod of gang x (1 of 2 exist)", "waiting for 1 more pod of gang x (1 of 2 exist) [WaitingForGang]"},
		{queue.Turn, "", "[WaitingForTurn]"},
		{queue.Room, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."},
	} {
		if got := test.wait.Mark(test.sentence); got != test.want {
			t.Errorf("Mark(%q) is %q, want %q", test.sentence, got, test.want)
		}
		sentence, wait := queue.Marked(test.want)
		if sentence != test.sentence || wait.NodeHelps() != test.wait.NodeHelps() || !wait.NodeHelps() && wait != test.wait {
			t.Errorf("Marked(%q) is %q of %s, want %q of %s", test.want, sentence, wait.Code(), test.sentence, test.wait.Code())
		}
	}
	for _, foreign := range []string{"", "Scheduling is blocked due to non-empty scheduling gates", "waits [for nothing]", "a [] b", "[WaitingForGang", "x []"} {
		if got, wait := queue.Marked(foreign); got != foreign || wait != queue.Unknown {
			t.Errorf("Marked(%q) is %q and %s, want it as it is", foreign, got, wait.Code())
		}
	}
}
