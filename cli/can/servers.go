package can

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/kube/can"
	"berth.dev/berth/kube/serving"
)

// servers are the runtimes of models: those of the files, and what was read of the cluster.
type servers struct {
	made map[string][]*serving.Runtime // by namespace; "" is those of the cluster
	read map[string][]*serving.Runtime
}

// add notes a runtime that the files make. One that cannot be read serves nothing.
func (s *servers) add(o *unstructured.Unstructured) {
	r, err := can.Server(o)
	if err != nil {
		return
	}
	if s.made == nil {
		s.made = map[string][]*serving.Runtime{}
	}
	s.made[o.GetNamespace()] = append(s.made[o.GetNamespace()], r)
}

// serversFor returns the runtimes from which an InferenceService gets one; nil is another object, or that they cannot be read.
func (j *judge) serversFor(ctx context.Context, o *unstructured.Unstructured) []*serving.Runtime {
	if o.GetKind() != kserve.Kind {
		return nil
	}
	own, ok := j.serversOf(ctx, kserve.Runtimes, o.GetNamespace())
	all, okAll := j.serversOf(ctx, kserve.ClusterRuntimes, metav1.NamespaceNone)
	if !ok || !okAll {
		return nil
	}
	return append([]*serving.Runtime{}, slices.Concat(own, all, j.servers.made[o.GetNamespace()], j.servers.made[""])...) // not nil: that there is none is known
}

// serversOf returns the runtimes of a namespace, or of the cluster, as the API server has them. They are read once.
func (j *judge) serversOf(ctx context.Context, of schema.GroupVersionResource, namespace string) (out []*serving.Runtime, ok bool) {
	if list, is := j.servers.read[namespace]; is {
		return list, true
	}
	list, err := j.api.Resource(of).Namespace(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, false
	}
	for i := range list.Items {
		if r, err := can.Server(&list.Items[i]); err == nil {
			out = append(out, r)
		}
	}
	if j.servers.read == nil {
		j.servers.read = map[string][]*serving.Runtime{}
	}
	j.servers.read[namespace] = out
	return out, true
}
