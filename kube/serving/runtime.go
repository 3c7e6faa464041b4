package serving

import (
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/core/serving"
)

// Runtime is a runtime as it is written, with what is read of it.
type Runtime struct {
	serving.Runtime
	spec map[string]any
}

// RuntimeOf reads a ServingRuntime, or a ClusterServingRuntime if cluster.
func RuntimeOf(meta *metav1.ObjectMeta, spec runtime.RawExtension, cluster bool) (*Runtime, error) {
	r := &Runtime{spec: map[string]any{}}
	if err := utiljson.Unmarshal(spec.Raw, &r.spec); err != nil {
		return nil, fmt.Errorf("read runtime %s: %w", meta.Name, err)
	}
	disabled, _ := r.spec["disabled"].(bool)
	many, _ := r.spec["multiModel"].(bool)
	r.Runtime = serving.Runtime{
		Name: meta.Name, Cluster: cluster, Disabled: disabled, MultiNode: r.spec["workerSpec"] != nil, MultiModel: many,
		ServerType: meta.Annotations[kserve.AnnotationServerType], Created: meta.CreationTimestamp.Truncate(time.Second),
	}
	formats, _ := r.spec["supportedModelFormats"].([]any)
	for _, f := range formats {
		f, _ := f.(map[string]any)
		auto, _ := f["autoSelect"].(bool)
		r.Formats = append(r.Formats, serving.Format{Name: text(f["name"]), Version: text(f["version"]), Auto: auto, Priority: int(number(f["priority"], 0))})
	}
	protocols, _ := r.spec["protocolVersions"].([]any)
	for _, p := range protocols {
		r.Protocols = append(r.Protocols, text(p))
	}
	return r, nil
}

// Choose returns a copy of the runtime of a service, or nil if the service defines its containers. What is built of the copy leaves the
// runtimes as they are, which others may use at the same time.
func Choose(w *Written, runtimes []*Runtime) (*Runtime, *serving.Fault) {
	if w.Service.Model == nil {
		return nil, nil //nolint:nilnil // it needs none
	}
	list := make([]serving.Runtime, len(runtimes))
	for i, r := range runtimes {
		list[i] = r.Runtime
	}
	chosen, fault := serving.Choose(w.Service.Model, list)
	if fault != nil {
		return nil, fault
	}
	for _, r := range runtimes {
		if r.Name == chosen.Name && r.Cluster == chosen.Cluster {
			return &Runtime{Runtime: r.Runtime, spec: runtime.DeepCopyJSON(r.spec)}, nil
		}
	}
	return nil, invalid("runtime %s is gone", chosen.Name)
}

// texts reads a mapping of strings.
func texts(v any) map[string]any {
	m, _ := v.(map[string]any)
	return maps.Clone(m)
}
