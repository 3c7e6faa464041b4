package explain

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// SetDRA has a Cluster count what a DRA driver alone offers on nodes. Without it such nodes
// are nodes without GPUs.
func (t *Cluster) SetDRA(d devices.DRA) { t.dra = d }

// claimGap is what a node lacks that offers GPUs to claims only, to a pod that requests a
// GPU resource; false is that it has no such GPUs.
func (t *Cluster) claimGap(n *v1.Node, resource string) (reasons.Gap, bool) {
	count := t.dra.Only(n)
	if count == 0 || !request.IsGPU(resource) || !strings.HasPrefix(resource, "nvidia.com/") {
		return reasons.Gap{}, false
	}
	if t.dra.Stock(resource) {
		return reasons.Gap{
			Check: reasons.CheckGPUs, Subject: resource, Needed: 1, Total: int64(count),
			Has: fmt.Sprintf("its devices are those of the DRA driver %s, of which kube-scheduler gives one for each %s; how many are free is not counted", devices.DRADriver, resource),
			Do:  "kubectl get resourceclaims -A shows who holds them",
		}, true
	}
	do := "request them by spec.resourceClaims, or install the device plugin there"
	if slices.Contains(t.dra.Resources, resource) {
		do = "install the device plugin there, or let kube-scheduler bind the pod"
	}
	return reasons.Gap{
		Check: reasons.CheckOffered, Remedy: reasons.Never, Subject: resource, Total: int64(count), Driver: devices.DRADriver, Do: do,
	}, true
}

// claimOnly is that nodes would do but that only a DRA driver offers their GPUs; nil is
// that there are none.
func claimOnly(v *reasons.Verdict) *reasons.Detail {
	if text := v.ClaimOnly(); text != "" {
		return &reasons.Detail{Code: reasons.CodeClaimOnly, Text: text}
	}
	return nil
}
