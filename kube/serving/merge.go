package serving

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api/kserve"
)

// keys are by what the members of a list of a container are the same.
var keys = map[string]string{"env": "name", "ports": "containerPort", "volumeMounts": "mountPath", "volumes": "name", "imagePullSecrets": "name"}

// merge puts what over says over base, as KServe merges a runtime and a predictor: objects field by field, lists of named things thing by
// thing, args one after the other, and all else replaced. Neither argument is changed.
func merge(base, over map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(base)
	if out == nil {
		out = map[string]any{}
	}
	for field, value := range runtime.DeepCopyJSON(over) {
		was, there := out[field]
		switch key := keys[field]; {
		case !there:
			out[field] = value
		case field == "args":
			a, _ := was.([]any)
			b, _ := value.([]any)
			out[field] = append(a, b...)
		case key != "":
			out[field] = mergeList(was, value, key)
		default:
			a, isA := was.(map[string]any)
			b, isB := value.(map[string]any)
			if out[field] = value; isA && isB {
				out[field] = merge(a, b)
			}
		}
	}
	return out
}

// mergeList merges lists of objects that a field identifies.
func mergeList(base, over any, key string) []any {
	out, _ := base.([]any)
	more, _ := over.([]any)
	for _, m := range more {
		o, ok := m.(map[string]any)
		i := slices.IndexFunc(out, func(b any) bool { b2, isMap := b.(map[string]any); return ok && isMap && b2[key] == o[key] })
		if i < 0 {
			out = append(out, m)
			continue
		}
		if was := out[i].(map[string]any); o["valueFrom"] != nil || was["valueFrom"] != nil {
			out[i] = o // a value and its source exclude each other
		} else {
			out[i] = merge(was, o)
		}
	}
	return out
}

// placeholder is a template in a runtime: {{.Name}}, {{.Labels.x}}, and so on.
var placeholder = regexp.MustCompile(`\{\{\s*\.(Name|Namespace|Labels|Annotations)(?:\.([^\s}]+))?\s*\}\}`)

// fill replaces the placeholders in all texts below v by what a service says of itself; what it does not say is "".
func fill(v any, o *kserve.InferenceService, labels, notes map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = fill(v[k], o, labels, notes)
		}
		return v
	case []any:
		for i := range v {
			v[i] = fill(v[i], o, labels, notes)
		}
		return v
	case string:
		if !strings.Contains(v, "{{") {
			return v
		}
		return placeholder.ReplaceAllStringFunc(v, func(s string) string {
			m := placeholder.FindStringSubmatch(s)
			switch m[1] {
			case "Name":
				return o.Name
			case "Namespace":
				return o.Namespace
			case "Labels":
				return text(labels[m[2]])
			}
			return text(notes[m[2]])
		})
	}
	return v
}

// union merges mappings; of the same key the last counts.
func union(all ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// anys returns a mapping of strings as decoded JSON has it.
func anys(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}
