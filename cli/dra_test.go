package cli_test

import (
	"regexp"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/kubetest"
)

// TestNodesOfADRADriver has one node with four GPUs as a resource, and one whose eight GPUs,
// which GPU Feature Discovery has found too, only a DRA driver offers.
func TestNodesOfADRADriver(t *testing.T) {
	only, plain := kubetest.Foreign("d-1", map[string]string{"nvidia.com/gpu.count": "8"}, "cpu", 64), kubetest.Foreign("n-1", nil, "nvidia.com/gpu", 4)
	name := only.Name
	offer := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "d-1"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: devices.DRADriver, NodeName: &name, Pool: resourcev1.ResourcePool{Name: "d-1", Generation: 1}, Devices: make([]resourcev1.Device, 8),
	}}
	s := newStage(t, plain, only, offer)
	out := s.ok("nodes")
	for _, want := range []string{
		`(?m)^d-1 .* 0 +0 +- +DRA only \(8\), not used by Berth yet$`, `(?m)^n-1 .* 4 +0 +- +4 +0`, `(?m)^TOTAL .* - +4 +0 `,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no line matches %s:\n%s", want, out)
		}
	}
	if got := s.ok("nodes", "-o", "jsonpath={.items[0].node} {.items[0].claimOnly} {.items[0].free} {.total.claimOnly} {.total.free}"); got != "d-1 8 0 8 4" {
		t.Errorf("as JSON: %s", got)
	}
	if got := newStage(t, plain).ok("nodes", "-o", "json"); strings.Contains(got, "claimOnly") {
		t.Errorf("without a DRA driver nothing is said: %s", got)
	}
}
