package request

import (
	"fmt"
	"strconv"
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
// of. named is what each container got; if it is empty, the labels of n say that it got shares.
func SeveralShares(pod *v1.Pod, n *v1.Node, named map[string][]sharing.Named) string {
	parts := Parts(pod)
	if SharesDo(pod, parts) || SharesAccepted(n.Annotations) {
		return ""
	}
	for i := range parts {
		asked := mostGPUs(parts[i : i+1])
		if asked < 2 {
			continue
		}
		got, on := named[parts[i].Name], map[string]bool{}
		if len(named) == 0 && sharedByLabel(n) {
			return severalShares(parts[i].Name, asked, fmt.Sprintf("%d shares", asked), n.Name)
		}
		for _, d := range got {
			if d.MilliGPU >= 1000 || strings.HasPrefix(d.UUID, "MIG-") {
				got = nil
				break
			}
			on[d.UUID] = true
		}
		if len(got) > 1 {
			return severalShares(parts[i].Name, int64(len(got)), fmt.Sprintf("%d shares of %d", len(got), len(on)), n.Name)
		}
	}
	return ""
}

func severalShares(container string, asked int64, got, node string) string {
	return fmt.Sprintf("Container %s asks for %d GPUs and got %s on node %s. Shares give no more compute than one of each GPU. "+
		"Request 1, wait for a node with whole GPUs (select it by %s), or set the annotation %s: \"true\" if shares are enough",
		container, asked, got, node, api.LabelProduct, api.AnnotationSharesDo)
}

// sharedByLabel reports whether a node divides its GPUs, as GPU Feature Discovery says: all
// that it offers as GPUs are shares then, unless shares have a name for themselves.
func sharedByLabel(n *v1.Node) bool {
	replicas, err := strconv.Atoi(n.Labels[api.LabelReplicas])
	named := n.Status.Capacity[api.ResourceGPUShared]
	return err == nil && replicas > 1 && named.IsZero()
}
