package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/request"
)

// VolumeTopology is a volume of a pod that only some nodes reach, as one in a zone does.
type VolumeTopology struct {
	Claim  string // in the pod's namespace
	Volume string // the PersistentVolume that the claim is bound to
	Where  string // what a node must have to reach it, such as "topology.kubernetes.io/zone=us-east1-a"

	reach *nodeaffinity.NodeSelector
}

// Reaches says whether a node reaches the volume.
func (t *VolumeTopology) Reaches(n *v1.Node) bool { return t.reach.Match(n) }

// VolumeTopologies gives what ties a pod to nodes by its volumes: those of its claims, of its
// own namespace, that are bound to a volume with a node affinity. Claims without a
// volume tie it to nothing. The order is that of the pod's volumes.
func VolumeTopologies(pod *v1.Pod, claims []*v1.PersistentVolumeClaim, volumes []*v1.PersistentVolume) []VolumeTopology {
	var out []VolumeTopology
	for _, name := range ClaimsOf(pod) {
		i := slices.IndexFunc(claims, func(c *v1.PersistentVolumeClaim) bool { return c.Namespace == pod.Namespace && c.Name == name })
		if i < 0 || claims[i].Spec.VolumeName == "" {
			continue
		}
		j := slices.IndexFunc(volumes, func(v *v1.PersistentVolume) bool { return v.Name == claims[i].Spec.VolumeName })
		if j < 0 {
			continue
		}
		if tie, tied := TopologyOf(name, volumes[j]); tied {
			out = append(out, tie)
		}
	}
	return out
}

// TopologyOf is the volume of a claim as one that only some nodes reach; it reports false if all nodes do.
func TopologyOf(claim string, v *v1.PersistentVolume) (VolumeTopology, bool) {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return VolumeTopology{}, false
	}
	required := v.Spec.NodeAffinity.Required
	reach, err := nodeaffinity.NewNodeSelector(required)
	if err != nil {
		return VolumeTopology{}, false // the API server takes none such
	}
	return VolumeTopology{Claim: claim, Volume: v.Name, Where: termsText(required.NodeSelectorTerms), reach: reach}, true
}

// tiesOf are those of ties that a pod has claims of.
func tiesOf(pod *v1.Pod, ties []VolumeTopology) []VolumeTopology {
	if len(ties) == 0 {
		return nil
	}
	claims := ClaimsOf(pod)
	return slices.DeleteFunc(slices.Clone(ties), func(tie VolumeTopology) bool { return !slices.Contains(claims, tie.Claim) })
}

// ClaimsOf lists the volume claims that a pod names, in the order of its volumes.
// A claim that comes and goes with the pod has the pod's name before its own.
func ClaimsOf(pod *v1.Pod) []string {
	var out []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			out = append(out, pod.Name+"-"+v.Name)
		}
	}
	return out
}

// elsewhere names the pod on another node that uses a claim of a pod: "volume claim data is used
// by pod a on node n"; "" is none.
func elsewhere(pod *v1.Pod, pods []*v1.Pod) string {
	for _, name := range ClaimsOf(pod) {
		for _, p := range pods {
			if p.Namespace == pod.Namespace && p.Spec.NodeName != "" && p.Spec.NodeName != pod.Spec.NodeName && !request.Ended(p) && slices.Contains(ClaimsOf(p), name) {
				return fmt.Sprintf("volume claim %s is used by pod %s on node %s", name, p.Name, p.Spec.NodeName)
			}
		}
	}
	return ""
}

// termsText writes node selector terms as people read them: "zone=a or zone=b".
func termsText(terms []v1.NodeSelectorTerm) string {
	var out []string
	for i := range terms {
		var all []string
		for _, e := range slices.Concat(terms[i].MatchExpressions, terms[i].MatchFields) {
			all = append(all, expressionText(&e))
		}
		out = append(out, strings.Join(all, " and "))
	}
	return strings.Join(out, " or ")
}

func expressionText(e *v1.NodeSelectorRequirement) string {
	switch {
	case e.Operator == v1.NodeSelectorOpIn && len(e.Values) == 1:
		return e.Key + "=" + e.Values[0]
	case e.Operator == v1.NodeSelectorOpExists:
		return e.Key
	case e.Operator == v1.NodeSelectorOpDoesNotExist:
		return "no " + e.Key
	}
	words := map[v1.NodeSelectorOperator]string{
		v1.NodeSelectorOpIn: "one of", v1.NodeSelectorOpNotIn: "none of", v1.NodeSelectorOpGt: "more than", v1.NodeSelectorOpLt: "less than",
	}
	return e.Key + " " + words[e.Operator] + " " + strings.Join(e.Values, ", ")
}

// BadClaims are the claims of a pod that keep it from every node: those that are not among
// claims, and those without a volume whose StorageClass is not among classes or could
// not provide it, as the newest of failures says: events ProvisioningFailed. A claim
// that comes and goes with the pod is made later, and none of them.
func BadClaims(pod *v1.Pod, claims []*v1.PersistentVolumeClaim, classes []storagev1.StorageClass, failures []v1.Event) []reasons.Claim {
	var have []string
	for i := range classes {
		have = append(have, classes[i].Name)
	}
	slices.Sort(have)
	var out []reasons.Claim
	for i := range pod.Spec.Volumes {
		v := pod.Spec.Volumes[i].PersistentVolumeClaim
		if v == nil {
			continue
		}
		at := slices.IndexFunc(claims, func(c *v1.PersistentVolumeClaim) bool { return c.Namespace == pod.Namespace && c.Name == v.ClaimName })
		if at < 0 {
			out = append(out, reasons.Claim{Name: v.ClaimName, Missing: true})
			continue
		}
		c := claims[at]
		if class := c.Spec.StorageClassName; c.Spec.VolumeName == "" && class != nil && *class != "" && !slices.Contains(have, *class) {
			out = append(out, reasons.Claim{Name: c.Name, Class: *class, Classes: have})
		} else if said := provisioning(c, failures); c.Spec.VolumeName == "" && class != nil && said != "" {
			out = append(out, reasons.Claim{Name: c.Name, Of: *class, Modes: modesText(c.Spec.AccessModes), Said: said})
		}
	}
	return out
}

// provisioning is what the newest event about a claim that could not be provided says.
func provisioning(c *v1.PersistentVolumeClaim, failures []v1.Event) string {
	said := ""
	var last time.Time
	for i := range failures {
		e := &failures[i]
		of, at := e.InvolvedObject, e.LastTimestamp.Time
		if of.Kind == "PersistentVolumeClaim" && of.Namespace == c.Namespace && of.Name == c.Name && (of.UID == c.UID || of.UID == "") && e.Reason == "ProvisioningFailed" && !at.Before(last) {
			said, last = e.Message, at
		}
	}
	return said
}

func modesText(modes []v1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range modes {
		out = append(out, string(m))
	}
	return strings.Join(out, " and ")
}
