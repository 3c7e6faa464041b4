package state

import (
	"strconv"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/kube/request"
)

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
