package agent

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/api"
)

// watchNode tells of the Node object when it comes and whenever its labels or
// annotations change, one call after another, until ctx ends.
func watchNode(ctx context.Context, client kubernetes.Interface, name string, tell func(*v1.Node)) {
	only := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	}
	var last *v1.Node
	on := func(obj any) {
		n, ok := obj.(*v1.Node)
		if !ok || last != nil && sameNotes(last, n) {
			return
		}
		last = n
		tell(n)
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "nodes", "", only),
		ObjectType:    &v1.Node{},
		Transform:     lean,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    on,
			UpdateFunc: func(_, obj any) { on(obj) },
		},
	})
	informer.RunWithContext(ctx)
}

// lean drops what the agent does not read: a node's images are most of it.
func lean(obj any) (any, error) {
	n, ok := obj.(*v1.Node)
	if !ok {
		return obj, nil
	}
	n.Status = v1.NodeStatus{}
	return n, nil
}

func sameNotes(a, b *v1.Node) bool {
	if len(a.Labels) != len(b.Labels) || len(a.Annotations) != len(b.Annotations) || a.UID != b.UID {
		return false
	}
	for k, v := range a.Labels {
		if w, ok := b.Labels[k]; !ok || v != w {
			return false
		}
	}
	for k, v := range a.Annotations {
		if w, ok := b.Annotations[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// latest is a channel of one value, of which the newest counts.
type latest[T any] chan T

func newLatest[T any]() latest[T] { return make(latest[T], 1) }

// put replaces what was not taken yet. Only one goroutine may call it.
func (c latest[T]) put(v T) {
	select {
	case <-c:
	default:
	}
	c <- v
}

// pluginLabel is the value of the label that chooses the configuration.
func pluginLabel(n *v1.Node) string { return n.Labels[api.LabelPluginConfig] }
