package devices_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/scheduler/devices"
)

// cameAt is a pod in the scheduling queue since a time.
type cameAt struct {
	queued
	at time.Time
}

func (q cameAt) GetTimestamp() time.Time { return q.at }

// TestOneOrderEverywhere: pods of the same few seconds, which came into the queue in
// any order, are in one order for the scheduling queue, for the line of those that
// fit nowhere, and for whoever is told their place.
func TestOneOrderEverywhere(t *testing.T) {
	made := devices.Plugins()
	gangs, err := made[devices.GangsName](t.Context(), nil, newRig(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	sorts := gangs.(*devices.Gangs)
	for seed := range uint64(50) {
		chance := rand.New(rand.NewPCG(seed, 4))
		n := t4Node(t, "n", 1, gpu.Sharing{})
		h := &handle{nodes: []*info{{node: n, generation: 1, pods: []*v1.Pod{onNode(asking("x", "", "gpu=1"), "n")}}}}
		plugin, _ := both(t, h)
		var pods []*v1.Pod
		var inQueue []fwk.QueuedPodInfo
		for i := range 12 {
			p := asking(fmt.Sprint("p", i), "", "gpu=1")
			p.UID = types.UID(fmt.Sprintf("%04d-%d", chance.IntN(10000), i))
			p.CreationTimestamp = metav1.Unix(1e9+int64(chance.IntN(3)), 0)
			p.Spec.Priority = new(int32(chance.IntN(2)))
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse}}
			_, status := plugin.PreFilter(t.Context(), &state{data: map[fwk.StateKey]fwk.StateData{}}, p, h.list())
			if status.IsSuccess() {
				t.Fatalf("seed %d: pod %s fits on a full node", seed, p.Name)
			}
			pods = append(pods, p)
			inQueue = append(inQueue, cameAt{queued{pod: p}, time.Unix(1e9, int64(chance.IntN(1e9)))})
		}
		slices.SortFunc(inQueue, func(a, b fwk.QueuedPodInfo) int {
			switch {
			case sorts.Less(a, b):
				return -1
			case sorts.Less(b, a):
				return 1
			}
			return 0
		})
		var queue []string
		for _, q := range inQueue {
			queue = append(queue, q.GetPodInfo().GetPod().Name)
		}
		told := make([]string, len(pods))
		for _, p := range pods {
			told[explain.PlaceInLine(p, pods, nil, nil).At-1] = p.Name
		}
		if line := devices.Lines(plugin); len(line) != 1 || !slices.Equal(line[0], queue) || !slices.Equal(told, queue) {
			t.Fatalf("seed %d: the queue has %v, the line %v, and told is %v; want the same thrice", seed, queue, line, told)
		}
	}
}
