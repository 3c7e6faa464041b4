package serving

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	objects "berth.dev/berth/kube/serving"
)

// runtimes are those that were read, each version once: a pass over each of a thousand services looks at all of them. Safe for
// concurrent use; what it returns is shared.
type runtimes struct {
	mu    sync.Mutex
	known map[types.UID]version
}

// version is one version of a runtime.
type version struct {
	of   string
	read *objects.Runtime // nil: it cannot be read
}

// mostRuntimes is how many are remembered, with some that are gone.
const mostRuntimes = 10_000

// read returns a runtime, or nil if it cannot be read: such a one serves nothing.
func (r *runtimes) read(meta *metav1.ObjectMeta, spec runtime.RawExtension, cluster bool) *objects.Runtime {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.known[meta.UID]; ok && v.of == meta.ResourceVersion && meta.UID != "" {
		return v.read
	}
	read, err := objects.RuntimeOf(meta, spec, cluster)
	if err != nil {
		read = nil
	}
	if r.known == nil || len(r.known) >= mostRuntimes {
		r.known = map[types.UID]version{}
	}
	r.known[meta.UID] = version{meta.ResourceVersion, read}
	return read
}
