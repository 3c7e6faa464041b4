package view_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/view"
)

// rows: GS-37 GS-93
func TestShares(t *testing.T) {
	gpus := kubetest.Share(kubetest.A100s("sliced", 2), 4)
	nodes := []*v1.Node{
		kubetest.Inventory("whole", kubetest.A100s("whole", 2), api.ResourceGPU, 2),
		kubetest.Inventory("sliced", gpus, api.ResourceGPU, 8),
		kubetest.Inventory("mig", kubetest.Cut("mig", kubetest.A100s("mig", 1)), "nvidia.com/mig-1g.5gb", 7),
	}
	pods := []*v1.Pod{
		kubetest.Observed(kubetest.Pod("one", "whole", api.ResourceGPU, 1), api.ResourceGPU, "GPU-whole-0"),
		kubetest.Observed(kubetest.Pod("a", "sliced", api.ResourceGPU, 1), api.ResourceGPU, "GPU-sliced-0::0"),
		kubetest.Observed(kubetest.Pod("b", "sliced", api.ResourceGPU, 1), api.ResourceGPU, "GPU-sliced-0::1"),
		kubetest.Observed(kubetest.Pod("c", "sliced", api.ResourceGPU, 1), api.ResourceGPU, "GPU-sliced-1::0"),
		kubetest.Observed(kubetest.Pod("m", "mig", "nvidia.com/mig-1g.5gb", 1), "nvidia.com/mig-1g.5gb", "MIG-mig-0-3"),
		kubetest.Observed(kubetest.Pod("n", "mig", "nvidia.com/mig-1g.5gb", 1), "nvidia.com/mig-1g.5gb", "MIG-mig-0-4"),
		kubetest.Pod("somewhere", "sliced", api.ResourceGPU, 1),
	}
	v := view.Cluster(nodes, pods)
	var got []string
	for _, s := range v.Shares(nodes, pods) {
		got = append(got, fmt.Sprintf("%s/%s %s %d beside %d", s.Node, s.Pod, s.Ways.Text("and"), s.MilliGPU, s.Neighbors))
	}
	want := []string{
		"mig/m MIG 142 beside 1", "mig/n MIG 142 beside 1", "sliced/a TimeSlicing 250 beside 1", "sliced/b TimeSlicing 250 beside 1", "sliced/c TimeSlicing 250 beside 0",
		"sliced/somewhere TimeSlicing 250 beside 0", "whole/one Whole 1000 beside 0",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("shares are\n%s\nwant\n%s", g, w)
	}
	// Two slices of a GPU, one of another, one somewhere, which takes a GPU at most, and two MIG devices of a third.
	if saved, parts, gpus := v.Saved(); saved != 2 || parts != 6 || gpus != 4 {
		t.Errorf("%d parts of %d GPUs save %d, want 6, 4, and 2", parts, gpus, saved)
	}
}
