package request

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
)

// SharesDo reports whether shares of GPUs serve a pod as well as GPUs: it says so, it
// asks for shares by their name, or no container asks for more than one GPU.
func SharesDo(pod *v1.Pod, parts []sharing.Part) bool {
	return SharesAccepted(pod.Annotations) || mostGPUs(parts) < 2
}

// SharesAccepted reports whether a pod accepts several shares of one GPU.
func SharesAccepted(annotations map[string]string) bool {
	return annotations[api.AnnotationSharesDo] == "true"
}

// mostGPUs is the most nvidia.com/gpu that one container asks for.
func mostGPUs(parts []sharing.Part) int64 {
	most := int64(0)
	for i := range parts {
		n := int64(0)
		for _, a := range parts[i].Asks {
			if _, _, share := a.ShareOf(); !share && a.Resource == api.ResourceGPU {
				n += a.Count
			}
		}
		most = max(most, n)
	}
	return most
}

// SeveralShares is the warning for a pod that asks for several GPUs and got shares
// on node n, where neither says that shares do; "" where there is nothing to warn
// of. named is what each container got.
func SeveralShares(pod *v1.Pod, n *v1.Node, named map[string][]sharing.Named) string {
	parts := Parts(pod)
	if SharesDo(pod, parts) || SharesAccepted(n.Annotations) {
		return ""
	}
	for i := range parts {
		if mostGPUs(parts[i:i+1]) < 2 {
			continue
		}
		got, on := named[parts[i].Name], map[string]bool{}
		for _, d := range got {
			if d.MilliGPU >= 1000 || strings.HasPrefix(d.UUID, "MIG-") {
				got = nil
				break
			}
			on[d.UUID] = true
		}
		if len(got) > 1 {
			return fmt.Sprintf("Container %s asks for %d GPUs and got %d shares of %d on node %s. Shares give no more compute than one of each GPU. "+
				"Request 1, wait for a node with whole GPUs (select it by %s), or set the annotation %s: \"true\" if shares are enough",
				parts[i].Name, len(got), len(got), len(on), n.Name, api.LabelProduct, api.AnnotationSharesDo)
		}
	}
	return ""
}
