package explain_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/explain"
)

// TestARefusalIsTheHeadline: what a scheduler writes of a pod that it refuses is what berth
// why says, with what the scheduler alone knows.
func TestARefusalIsTheHeadline(t *testing.T) {
	const stock = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
	const preemption = " preemption: not eligible due to preemptionPolicy=Never."
	w := &world{nodes: []*v1.Node{big("a-1"), big("a-2")}, pods: [][]*v1.Pod{{holds("h", "a-1", 4, 1)}, {holds("i", "a-2", 3, 1)}}, at: make([]int64, 2)}
	for _, tt := range []struct {
		name string
		pod  *v1.Pod
		wait queue.Wait
		said string
		want string
	}{
		{"GPUs are held", refused([]any{api.ResourceGPU, 2}), queue.Room, stock, "waits for 2 nvidia.com/gpu; of 8 that nodes offer it, no node has that many free"},
		{
			"and it may preempt no pod", refused([]any{api.ResourceGPU, 2}), queue.Room, stock + preemption,
			"waits for 2 nvidia.com/gpu; of 8 that nodes offer it, no node has that many free." + preemption,
		},
		{
			"pods are ending for it", refused([]any{api.ResourceGPU, 2}), queue.Preemption, stock + " preemption: waiting for 1 pod on node a-1 to end",
			"waits for 2 nvidia.com/gpu; of 8 that nodes offer it, no node has that many free. preemption: waiting for 1 pod on node a-1 to end",
		},
		{
			"a name with an s", refused([]any{"nvidia.com/gpus", 1}), queue.Unknown, "0/2 nodes are available: 1 Insufficient nvidia.com/gpus, 1 node(s) didn't satisfy plugin(s) [BerthDevices].",
			"no node offers nvidia.com/gpus (there are 2); nodes offer nvidia.com/gpu; did you mean nvidia.com/gpu?",
		},
		{
			"a claim that is missing", refused([]any{api.ResourceGPU, 1}, claiming("data")), queue.Volume, `0/2 nodes are available: persistentvolumeclaim "data" not found.`,
			"volume claim data does not exist in namespace ns; create it",
		},
		{"its turn has not come", refused([]any{api.ResourceGPU, 2}), queue.Turn, "pod ns/a asks for the same and comes first", "pod ns/a asks for the same and comes first"},
		{
			"another filter is against it", refused([]any{api.ResourceGPU, 1}), queue.Unknown, "0/2 nodes are available: 1 node(s) are odd, 1 node(s) didn't satisfy plugin(s) [BerthDevices]. preemption: none",
			"0/2 nodes are available: 1 node(s) are odd. preemption: none",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := explain.NewRefusals().Sentence(tt.pod, tt.said, tt.wait, nil, w); got != tt.want {
				t.Errorf("it says %q\nwant    %q", got, tt.want)
			}
		})
	}
}
