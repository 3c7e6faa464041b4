package client

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/request"
)

// pageSize is how many objects are asked for at once: a large cluster then needs neither
// one large answer nor the memory for it.
const pageSize = 500

// paged lists page by page what keep makes of each object; nil is left out. If a page comes
// too late, because the API server has forgotten the list, all is listed again at once.
func paged[T any](o metav1.ListOptions, list func(metav1.ListOptions) ([]T, string, error), keep func(*T) *T) ([]*T, error) {
	var out []*T
	add := func(items []T) {
		for i := range items {
			if one := keep(&items[i]); one != nil {
				out = append(out, one)
			}
		}
	}
	o.Limit = pageSize
	for {
		items, next, err := list(o)
		if o.Continue != "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
			o.Continue, o.Limit, o.ResourceVersion, out = "", 0, "0", nil
			continue
		}
		if err != nil {
			return nil, err
		}
		add(items)
		if next == "" {
			return out, nil
		}
		o.Continue = next
	}
}

// trimNode is a node without who wrote its fields, and without its images.
func trimNode(n *v1.Node) *v1.Node {
	out := *n
	out.ManagedFields, out.Status.Images, out.Status.VolumesInUse, out.Status.VolumesAttached = nil, nil, nil, nil
	return &out
}

// unsigned is a pod without who wrote its fields.
func unsigned(p *v1.Pod) *v1.Pod {
	out := *p
	out.ManagedFields = nil
	return &out
}

// trimPod is a pod without who wrote its fields, and, of one that has a node, without what
// only its kubelet reads.
func trimPod(p *v1.Pod) *v1.Pod {
	out := unsigned(p)
	if p.Spec.NodeName == "" {
		return out
	}
	delete(out.Annotations, v1.LastAppliedConfigAnnotation)
	out.Spec.Containers, out.Spec.InitContainers = request.Footprint(p.Spec.Containers), request.Footprint(p.Spec.InitContainers)
	out.Spec.Tolerations, out.Spec.ImagePullSecrets, out.Spec.SecurityContext, out.Spec.DNSConfig, out.Spec.HostAliases = nil, nil, nil, nil, nil
	out.Status.Conditions = slices.DeleteFunc(slices.Clone(p.Status.Conditions), func(c v1.PodCondition) bool {
		return c.Type != v1.PodScheduled && c.Type != v1.PodReady && c.Type != v1.DisruptionTarget
	})
	out.Spec.Volumes = slices.DeleteFunc(slices.Clone(p.Spec.Volumes), func(v v1.Volume) bool { return v.PersistentVolumeClaim == nil && v.Ephemeral == nil })
	if len(out.Spec.Volumes) == 0 {
		out.Spec.Volumes = nil
	}
	return out
}
