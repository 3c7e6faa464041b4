package lint

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	strict "sigs.k8s.io/json"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/strictyaml"
	"berth.dev/berth/kube/exporter"
)

// types are the kinds of Kubernetes whose fields are known here.
var types = map[string]func() any{
	"v1/Pod": made[v1.Pod], "v1/ConfigMap": made[v1.ConfigMap], "v1/ResourceQuota": made[v1.ResourceQuota], "v1/LimitRange": made[v1.LimitRange],
	"apps/v1/Deployment": made[appsv1.Deployment], "apps/v1/StatefulSet": made[appsv1.StatefulSet], "apps/v1/DaemonSet": made[appsv1.DaemonSet],
	"apps/v1/ReplicaSet": made[appsv1.ReplicaSet], "batch/v1/Job": made[batchv1.Job], "batch/v1/CronJob": made[batchv1.CronJob],
	"policy/v1/PodDisruptionBudget": made[policyv1.PodDisruptionBudget], "scheduling.k8s.io/v1/PriorityClass": made[schedulingv1.PriorityClass],
	"autoscaling/v1/HorizontalPodAutoscaler": made[autoscalingv1.HorizontalPodAutoscaler], "autoscaling/v2/HorizontalPodAutoscaler": made[autoscalingv2.HorizontalPodAutoscaler],
}

func made[T any]() any { return new(T) }

// unknown is how package json names a field that a type does not have.
var unknown = regexp.MustCompile(`^unknown field "(.*)"$`)

// unknownFields finds fields that the object's kind does not have: kubectl's validation refuses them, and an
// API server that does not validate drops them.
func (o *object) unknownFields() {
	empty, known := types[o.apiVersion+"/"+o.kind]
	if !known {
		return
	}
	var plain any
	if o.root.Decode(&plain) != nil {
		return
	}
	raw, err := json.Marshal(plain)
	if err != nil {
		return
	}
	wrong, err := strict.UnmarshalStrict(raw, empty())
	if err != nil {
		o.say("", fail("unreadable", err.Error(), "write the value in the form that the field takes"))
		return
	}
	for _, e := range wrong {
		if m := unknown.FindStringSubmatch(e.Error()); m != nil {
			o.say(m[1], fail("unknown-field", "there is no field "+m[1]+" in a "+o.kind+": kubectl refuses it", o.belongs(m[1])))
		}
	}
}

// belongs says where a field belongs that stands in the wrong place, or which is meant.
func (o *object) belongs(path string) string {
	parent, name := "", path
	if i := strings.LastIndex(path, "."); i >= 0 {
		parent, name = path[:i], path[i+1:]
	}
	ofPod, ofContainer := fieldsOf[v1.PodSpec](), fieldsOf[v1.Container]()
	under := strictyaml.Find(o.root, parent)
	switch {
	case at(under, "containers") != nil && ofContainer[name]:
		return "move it into a container: " + parent + ".containers[0]." + name
	case at(under, "template") != nil && ofPod[name]:
		return "move it to the pod: " + strings.TrimPrefix(parent+".template.spec."+name, ".")
	case at(under, "template", "spec") == nil && at(under, "containers") == nil && ofPod[name] && o.kind != "Pod":
		return "pods have this field: write it in spec.template.spec"
	}
	names := slices.Concat(slices.Sorted(maps.Keys(ofPod)), slices.Sorted(maps.Keys(ofContainer)))
	if near := gpu.NearestWord(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	return "kubectl explain " + strings.ToLower(o.kind) + strings.TrimSuffix("."+parent, ".") + " lists the fields that there are"
}

// fieldsOf are the fields of a type, by their names in JSON.
func fieldsOf[T any]() map[string]bool {
	out := map[string]bool{}
	for f := range reflect.TypeFor[T]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out[name] = name != ""
	}
	return out
}

// metricNames finds series in a text of an object that exporters mostly do not have.
func (o *object) metricNames(n *yaml.Node, path string) {
	for _, s := range exporter.Unmeasured(n.Value) {
		line := 0
		if n.Style == yaml.LiteralStyle {
			line = n.Line + 1 + strings.Count(n.Value[:s.At], "\n")
		}
		o.sayAt(line, path, warn("metric-name", noSeries(s.Name), "use "+s.Instead))
	}
}
