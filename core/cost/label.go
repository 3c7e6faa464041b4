package cost

import (
	"maps"
	"slices"
	"strings"
)

// byLabel begins a By that adds up by a label of pods, such as label:team.
const byLabel = "label:"

// label is the label that a By adds up by; "" is that it is not one of labels.
func (by By) label() string {
	key, ok := strings.CutPrefix(string(by), byLabel)
	if !ok || key == "" || strings.ContainsAny(key, "=, ") {
		return ""
	}
	return key
}

// generated are labels that controllers put on pods, most with a value for each: they say nothing of who pays.
var generated = []string{
	"pod-template-hash", "pod-template-generation", "controller-revision-hash", "controller-uid", "job-name", "notebook-name", "statefulset", "hub.jupyter.org/servername",
}

// labelsMost is how many labels of a pod are kept.
const labelsMost = 32

// NewLabels is the labels of a pod, as a ledger keeps them: those of its namespace, which those of the pod replace, without
// labels that controllers generate. Keys and values are those of Kubernetes, in which "=" and "," cannot be.
func NewLabels(namespace, pod map[string]string) string {
	all := map[string]string{}
	for _, from := range []map[string]string{namespace, pod} {
		for key, value := range from {
			if keeps(key) {
				all[key] = value
			}
		}
	}
	keys := slices.Sorted(maps.Keys(all))
	keys = keys[:min(len(keys), labelsMost)]
	for i, key := range keys {
		keys[i] = key + "=" + all[key]
	}
	return strings.Join(keys, ",")
}

// keeps reports whether a label may say who pays.
func keeps(key string) bool {
	domain, _, prefixed := strings.Cut(key, "/")
	switch {
	case slices.Contains(generated, key):
		return false
	case !prefixed || domain == "app.kubernetes.io":
		return true
	}
	for _, own := range []string{"kubernetes.io", "k8s.io", "kubeflow.org", "berth.dev", "openshift.io"} {
		if domain == own || strings.HasSuffix(domain, "."+own) {
			return false
		}
	}
	return true
}

// labelOf is the value of a label; "" is none.
func labelOf(labels, key string) string {
	for pair := range strings.SplitSeq(labels, ",") {
		if k, value, _ := strings.Cut(pair, "="); k == key {
			return value
		}
	}
	return ""
}
