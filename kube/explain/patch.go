package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"berth.dev/berth/kube/request"
)

// PatchOf is the strategic merge patch of the spec of a pod that makes it another, as
// JSON; "" is that they do not differ.
func PatchOf(before, after *v1.Pod) (string, error) {
	was, err := json.Marshal(before.Spec)
	if err != nil {
		return "", fmt.Errorf("write the spec of pod %s: %w", before.Name, err)
	}
	is, err := json.Marshal(after.Spec)
	if err != nil {
		return "", fmt.Errorf("write the changed spec of pod %s: %w", before.Name, err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(was, is, v1.PodSpec{})
	if err != nil {
		return "", fmt.Errorf("compare the specs of pod %s: %w", before.Name, err)
	}
	var tree map[string]any
	if err := json.Unmarshal(patch, &tree); err != nil || len(tree) == 0 {
		return "", err
	}
	withoutOrder(tree)
	patch, err = json.Marshal(tree)
	return string(patch), err
}

// withoutOrder removes what a patch says of the order of lists, which stays.
func withoutOrder(tree map[string]any) {
	maps.DeleteFunc(tree, func(key string, _ any) bool { return strings.HasPrefix(key, "$setElementOrder/") })
	for _, value := range tree {
		switch value := value.(type) {
		case map[string]any:
			withoutOrder(value)
		case []any:
			for _, one := range value {
				if below, ok := one.(map[string]any); ok {
					withoutOrder(below)
				}
			}
		}
	}
}

// templated are the kinds whose pods are made again when their template changes.
var templated = []string{"Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"}

// command is the command that changes a pod, or what makes it, so; "" is that there is no
// command for its kind.
func command(before, after *v1.Pod) string {
	owner := request.OwnerOf(before)
	of := fmt.Sprintf("%s %s -n %s", strings.ToLower(owner.Kind), owner.Name, owner.Namespace)
	if owner.Kind != "Pod" {
		before, after = withoutAdded(before), withoutAdded(after)
	}
	patch, err := PatchOf(before, after)
	if err != nil || patch == "" {
		return ""
	}
	switch {
	case owner.Kind == "Pod" && onlyTolerations(before, after):
		return "kubectl patch " + of + " -p " + quote(`{"spec":`+patch+`}`)
	case owner.Kind == "Pod":
		return replace(of, `{"spec":`+patch+`}`)
	case owner.Kind == "Job":
		made := `"metadata":{"labels":{"controller-uid":null,"batch.kubernetes.io/controller-uid":null}}`
		return replace(of, `{"spec":{"selector":null,"template":{`+made+`,"spec":`+patch+`}}}`)
	case slices.Contains(templated, owner.Kind):
		out := "kubectl patch " + of + " -p " + quote(`{"spec":{"template":{"spec":`+patch+`}}}`)
		if owner.Kind != "Deployment" { // it would keep the pod that waits
			out += fmt.Sprintf(" && kubectl delete pod %s -n %s", before.Name, before.Namespace)
		}
		return out
	}
	return ""
}

// replace makes an object again with a change that the API server does not let be made.
func replace(of, patch string) string {
	return "kubectl get " + of + " -o json | kubectl patch --local -f - -p " + quote(patch) + " -o json | kubectl replace --force -f -"
}

// quote writes an argument for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// onlyTolerations reports whether a pod has more tolerations and is else the same, which a
// pod that exists may become.
func onlyTolerations(before, after *v1.Pod) bool {
	same := after.DeepCopy()
	same.Spec.Tolerations = before.Spec.Tolerations
	patch, err := PatchOf(before, same)
	return err == nil && patch == ""
}

// withoutAdded is a pod without what the API server adds to each.
func withoutAdded(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.Priority, p.Spec.PreemptionPolicy = nil, nil
	p.Spec.Tolerations = slices.DeleteFunc(p.Spec.Tolerations, func(t v1.Toleration) bool {
		return t.TolerationSeconds != nil && (t.Key == v1.TaintNodeNotReady || t.Key == v1.TaintNodeUnreachable)
	})
	return p
}
