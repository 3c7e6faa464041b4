package client

import (
	"maps"
	"runtime/debug"
	"runtime/metrics"
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

// enough is how large the heap of a process that lists a large cluster may become before its
// garbage is collected. Most of each page is garbage at once, and marking what is kept again
// and again, while it grows, takes more time than the rest of the garbage takes memory.
const enough = 104 << 20

// leastGarbage is how much garbage there may be, in percent of what is kept, where that
// alone is nearly enough.
const leastGarbage = 40

// gcPercent is the percentage of garbage that makes the heap of a process which keeps so
// many bytes collected when it has reached enough.
func gcPercent(kept uint64) int {
	if kept*(100+leastGarbage)/100 >= enough {
		return leastGarbage
	}
	return int((enough - kept) * 100 / max(kept, 1<<20))
}

// collectLate sets how much garbage there may be by what the last collection has kept.
func collectLate() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
}

// CollectLess has garbage collected only when there is twice as much of it as is kept, for a process that goes on to make much garbage from
// a large cluster that it has read.
func CollectLess() { debug.SetGCPercent(muchGarbage) }

// muchGarbage is twice as much garbage as is kept, in percent.
const muchGarbage = 200

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
		if next != "" {
			collectLate()
			forgetStart()
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

// trimNode is a node without who wrote its fields, but for when its kubelet did, and without its images.
func trimNode(n *v1.Node) *v1.Node {
	out := *n
	out.ManagedFields = nil
	for i := range n.ManagedFields {
		if m := &n.ManagedFields[i]; m.Manager == "kubelet" && m.Subresource == "status" {
			out.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: m.Manager, Subresource: m.Subresource, Time: m.Time}}
		}
	}
	out.Status.Images, out.Status.VolumesInUse, out.Status.VolumesAttached = nil, nil, nil
	return &out
}

// unsigned removes from a pod who wrote its fields. It is not copied: of a page whose pods are
// nearly all kept that would be waste.
func unsigned(p *v1.Pod) *v1.Pod {
	p.ManagedFields = nil
	return p
}

// trimmer trims pods, and keeps what many have in common once: two thirds of the memory
// of a large cluster's pods are equal resources, labels apart. It is not safe for
// concurrent use.
type trimmer struct{ lists map[string]v1.ResourceList }

func newTrimmer() *trimmer { return &trimmer{map[string]v1.ResourceList{}} }

// pod trims a pod in place: it is left without who wrote its fields, and without what only kubelets
// read of its containers; one that has a node also without what schedulers alone have read. Its resources
// may be those of other pods, too: they must not be changed.
func (t *trimmer) pod(p *v1.Pod) *v1.Pod {
	out := unsigned(p)
	delete(out.Annotations, v1.LastAppliedConfigAnnotation)
	out.Spec.Containers, out.Spec.InitContainers = t.containers(p.Spec.Containers), t.containers(p.Spec.InitContainers)
	if p.Spec.NodeName == "" {
		return out
	}
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
