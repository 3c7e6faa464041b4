package client

import (
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/request"
)

// pageSize is how many objects are asked for at once: a large cluster then needs neither
// one large answer nor the memory for it.
const pageSize = 500

// garbage is how much there may be, in percent of what is kept, before it is collected in a
// process that lists a large cluster: most of each page is garbage at once. With the usual
// 100 such a process needs a fifth more memory.
const garbage = 60

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
		if next != "" && o.Continue == "" {
			debug.SetGCPercent(garbage)
		}
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

// trimmer trims pods, and keeps what many have in common once: two thirds of the memory
// of a large cluster's pods are equal resources, labels apart. It is not safe for
// concurrent use.
type trimmer struct{ lists map[string]v1.ResourceList }

func newTrimmer() *trimmer { return &trimmer{map[string]v1.ResourceList{}} }

// pod is a pod without who wrote its fields, and, of one that has a node, without what
// only its kubelet reads. Its resources may be those of other pods, too: they must not be
// changed.
func (t *trimmer) pod(p *v1.Pod) *v1.Pod {
	out := unsigned(p)
	if p.Spec.NodeName == "" {
		return out
	}
	delete(out.Annotations, v1.LastAppliedConfigAnnotation)
	out.Spec.Containers, out.Spec.InitContainers = t.containers(p.Spec.Containers), t.containers(p.Spec.InitContainers)
	out.Spec.Tolerations, out.Spec.ImagePullSecrets, out.Spec.SecurityContext, out.Spec.DNSConfig, out.Spec.HostAliases = nil, nil, nil, nil, nil
	out.Status.Conditions = only(p.Status.Conditions, func(c *v1.PodCondition) bool {
		return c.Type == v1.PodScheduled || c.Type == v1.PodReady || c.Type == v1.DisruptionTarget
	})
	out.Spec.Volumes = only(p.Spec.Volumes, func(v *v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
	return out
}

func (t *trimmer) containers(list []v1.Container) []v1.Container {
	out := request.Footprint(list)
	for i := range out {
		r := &out[i].Resources
		r.Requests, r.Limits = t.shared(r.Requests), t.shared(r.Limits)
	}
	return out
}

// shared is a list equal to l: the first such that it was called with.
func (t *trimmer) shared(l v1.ResourceList) v1.ResourceList {
	if len(l) == 0 {
		return l
	}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l)) {
		q := l[name]
		key.WriteString(string(name) + "=" + q.String() + " ")
	}
	if _, known := t.lists[key.String()]; !known {
		t.lists[key.String()] = l
	}
	return t.lists[key.String()]
}

// only are the elements of list that keep reports true for, in memory of their size; nil
// is none.
func only[T any](list []T, keep func(*T) bool) []T {
	var out []T
	for i := range list {
		if keep(&list[i]) {
			out = append(out, list[i])
		}
	}
	return slices.Clip(out)
}
