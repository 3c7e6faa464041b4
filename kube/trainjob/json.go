package trainjob

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

// at returns the field of an object at a path of names with points between them; nil is that it is not there.
func at(object map[string]any, path string) any {
	var v any = object
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		if v = m[name]; v == nil {
			return nil
		}
	}
	return v
}

// child returns a field that is an object, which is made if it is not there.
func child(object map[string]any, name string) map[string]any {
	m, _ := object[name].(map[string]any)
	if m == nil {
		m = map[string]any{}
		object[name] = m
	}
	return m
}

// number returns a whole number of decoded JSON, or missing if it is none.
func number(v any, missing int) int {
	if n, ok := v.(int64); ok {
		return int(n)
	}
	return missing
}

// texts returns a list of strings.
func texts(v any) (out []string) {
	list, _ := v.([]any)
	for _, one := range list {
		s, _ := one.(string)
		out = append(out, s)
	}
	return out
}

// objects decodes a list of JSON objects.
func objects(list []runtime.RawExtension) (out []map[string]any, err error) {
	for _, raw := range list {
		var o map[string]any
		if err := json.Unmarshal(raw.Raw, &o); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// or returns what a pointer leads to, or what is used where it is nil.
func or[T any](p *T, missing T) T {
	if p == nil {
		return missing
	}
	return *p
}
