package can

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/kube/can"
)

// plugin returns what a ConfigMap does that has a configuration of the device plugin; nil is another object, or that DaemonSets cannot be
// read. The DaemonSets are read once.
func (j *judge) plugin(ctx context.Context, o *unstructured.Unstructured) []string {
	if !can.ConfiguresPlugin(o) {
		return nil
	}
	if j.plugins == nil {
		sets, err := j.AppsV1().DaemonSets("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil
		}
		j.plugins = &can.Plugins{DaemonSets: client.Pointers(sets.Items), Pods: j.held}
		policies := schema.GroupVersionResource{Group: "nvidia.com", Version: "v1", Resource: "clusterpolicies"} // the GPU Operator's settings
		if list, err := j.api.Resource(policies).List(ctx, metav1.ListOptions{}); err == nil {                   // most clusters serve none
			j.plugins.Policies = list.Items
		}
	}
	return j.plugins.Notes(o)
}
