package state

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/kube/request"
)

// classKey is equal for pods of one class.
func classKey(pod *v1.Pod, w *Request) string {
	b := make([]byte, 0, 256)
	add := func(s string) { b = append(append(b, s...), 0) }
	keys := make([]string, 0, len(pod.Spec.NodeSelector))
	for k := range pod.Spec.NodeSelector {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		add(k)
		add(pod.Spec.NodeSelector[k])
	}
	b = append(b, 1)
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		if raw, err := a.NodeAffinity.Marshal(); err == nil {
			b = append(b, raw...)
		}
	}
	b = append(b, 1)
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		add(t.Key)
		add(string(t.Operator))
		add(t.Value)
		add(string(t.Effect))
	}
	b = append(b, 1)
	for _, name := range w.Resources() {
		add(name)
	}
	if w.BySize() {
		b = append(b, 2)
	}
	if list := pod.Annotations[api.AnnotationDataset]; list != "" {
		b = append(b, 1)
		add(list)
	}
	return string(b)
}

// LineKey is equal for pods that fit the same nodes, and may or may not make room
// there. Pods of different queues have different lines: what one may take back from others, another
// may not.
func LineKey(pod *v1.Pod, w *Request, r *cluster.Request) string {
	b := append([]byte(w.Class), 3)
	if request.NeverPreempts(pod) {
		b = append(b, 4)
	}
	b = append(append(b, w.shape...), 3)
	if w.Queue != "" {
		b = append(append(b, w.Queue...), 5)
		b = append(b, w.Pools...)
		b = append(strconv.AppendUint(b, uint64(r.Products), 36), 5)
	}
	return string(strconv.AppendInt(append(strconv.AppendInt(b, r.CPUMilli, 36), '/'), r.MemoryBytes, 36))
}
