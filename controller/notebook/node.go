package notebook

import "slices"

// throughScheduler replaces a node that a pod's spec names by node affinity, as
// Kubernetes' DaemonSets do. With spec.nodeName a pod goes past the scheduler: a node without
// room rejects it, and its StatefulSet makes the next at once, several times a second.
func throughScheduler(spec map[string]any) {
	name, _ := spec["nodeName"].(string)
	if name == "" {
		return
	}
	required := child(child(child(spec, "affinity"), "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution")
	if required == nil {
		return // the API server says what is wrong with it
	}
	delete(spec, "nodeName")
	only := map[string]any{"key": "metadata.name", "operator": "In", "values": []any{name}}
	terms, _ := required["nodeSelectorTerms"].([]any)
	if len(terms) == 0 {
		required["nodeSelectorTerms"] = []any{map[string]any{"matchFields": []any{only}}}
	}
	for _, t := range terms { // a node has to match one of them
		if term, ok := t.(map[string]any); ok && len(term) > 0 { // an empty one matches no node
			fields, _ := term["matchFields"].([]any)
			term["matchFields"] = append(slices.Clone(fields), only)
		}
	}
}

// child returns the object under a key, and makes it if there is none. It is nil if
// something else is there.
func child(of map[string]any, key string) map[string]any {
	switch c := of[key].(type) {
	case map[string]any:
		return c
	case nil:
		if of != nil {
			made := map[string]any{}
			of[key] = made
			return made
		}
	}
	return nil
}
