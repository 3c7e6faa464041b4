package explain

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/request"
)

// resources are the GPU resources that nodes have any of, sorted.
func (t *Cluster) resources() []string {
	have := map[string]bool{}
	for _, n := range t.all {
		for _, name := range gpuResources(n) {
			have[name] = true
		}
	}
	return slices.Sorted(maps.Keys(have))
}

// less asks for what is free of CPU or memory on the node with most of that among
// those that pass all other checks. Only a pod of one container, or one whose init
// container asks for the most, is changed.
func (t *Cluster) less(pod *v1.Pod, name v1.ResourceName, what string) []change {
	without := pod.DeepCopy()
	set := func(p *v1.Pod, q resource.Quantity) {
		eachAmount(p, func(amounts v1.ResourceList) {
			if has, ok := amounts[name]; ok && has.Cmp(q) > 0 {
				amounts[name] = q
			}
		})
	}
	set(without, resource.Quantity{})
	a := t.askOf(without)
	var most int64
	for _, n := range t.nodes {
		i, ok := t.snapshot.Find(n.Name)
		if !ok || len(t.gaps(a, n)) > 0 {
			continue
		}
		if name == v1.ResourceCPU {
			most = max(most, t.snapshot.Node(i).FreeCPUMilli)
		} else {
			most = max(most, t.snapshot.Node(i).FreeMemoryBytes)
		}
	}
	each := most / int64(max(1, len(pod.Spec.Containers)))
	q := *resource.NewQuantity(each, resource.BinarySI)
	if name == v1.ResourceCPU {
		if each >= 1000 {
			each = each / 1000 * 1000
		}
		q = *resource.NewMilliQuantity(each, resource.DecimalSI)
	} else if each >= 1<<30 {
		q = *resource.NewQuantity(each>>30<<30, resource.BinarySI)
	}
	if q.IsZero() {
		return nil
	}
	of := ""
	if len(pod.Spec.Containers) > 1 {
		of = " in each container"
	}
	return []change{{fmt.Sprintf("ask for %s of %s at most%s", q.String(), what, of), func(p *v1.Pod) { set(p, q) }}}
}

// rename has the containers of a pod ask for another resource.
func rename(p *v1.Pod, from, to v1.ResourceName) {
	eachAmount(p, func(amounts v1.ResourceList) {
		if q, ok := amounts[from]; ok {
			delete(amounts, from)
			amounts[to] = q
		}
	})
}

// fewer finds the most GPUs below what pod asks for that fit now. Only the
// container that asks for the most is changed.
func (t *Cluster) fewer(pod *v1.Pod) (Help, bool) {
	less := pod.DeepCopy()
	container, name := 0, v1.ResourceName("")
	most := int64(1)
	for i := range less.Spec.Containers {
		amounts := request.ContainerAmounts(&less.Spec.Containers[i])
		for _, key := range slices.Sorted(maps.Keys(amounts)) {
			if n := amounts[key]; n > most {
				container, name, most = i, v1.ResourceName(key), n
			}
		}
	}
	for n := min(most, 128) - 1; n >= 1; n-- {
		r := &less.Spec.Containers[container].Resources
		for _, list := range []v1.ResourceList{r.Limits, r.Requests} {
			if _, ok := list[name]; ok {
				list[name] = *resource.NewQuantity(n, resource.DecimalSI)
			}
		}
		if node, ok := t.Fits(less); ok {
			text := fmt.Sprintf("ask for %d %s instead of %d", n, name, most)
			return Help{Relief: reasons.Relief{Change: text, Node: node}, Pod: less}, true
		}
	}
	return Help{}, false
}
