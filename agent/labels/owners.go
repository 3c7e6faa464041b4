package labels

import (
	"encoding/json"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Manager is the field manager of all that is written on a Node.
const Manager = "berth-agent"

// fieldSet is the part of a managedFields entry that tells of labels and
// annotations.
type fieldSet struct {
	Metadata struct {
		Labels      map[string]json.RawMessage `json:"f:labels"`
		Annotations map[string]json.RawMessage `json:"f:annotations"`
	} `json:"f:metadata"`
}

// owned is what a manager has written.
type owned struct{ labels, annotations map[string]bool }

// owners reads a Node's metadata.managedFields: what is ours, and who else has
// written each label and annotation, by key, sorted. Entries that cannot be read
// are passed over.
func owners(node *v1.Node) (mine owned, others map[string][]string) {
	mine = owned{map[string]bool{}, map[string]bool{}}
	others = map[string][]string{}
	for _, e := range node.ManagedFields {
		if e.FieldsV1 == nil || e.Subresource != "" {
			continue
		}
		var set fieldSet
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		note := func(fields map[string]json.RawMessage, to map[string]bool) {
			for field := range fields {
				key, ok := strings.CutPrefix(field, "f:")
				switch {
				case !ok:
				case e.Manager == Manager:
					to[key] = true
				case !slices.Contains(others[key], e.Manager):
					others[key] = append(others[key], e.Manager)
				}
			}
		}
		note(set.Metadata.Labels, mine.labels)
		note(set.Metadata.Annotations, mine.annotations)
	}
	for _, list := range others {
		slices.Sort(list)
	}
	return mine, others
}

// migState is what a MIG manager says of its work. Berth's writes it only where it
// is the node's MIG manager: what another one left there before is old.
const migState = prefix + "mig.config.state"

// aside takes out of want the labels of NVIDIA's that others have written, but for
// migState, and lists them and their writers, sorted.
func aside(want map[string]string, others map[string][]string) (keep map[string]string, left, writers []string) {
	keep = map[string]string{}
	for key, value := range want {
		if !strings.HasPrefix(key, prefix) || key == migState || len(others[key]) == 0 {
			keep[key] = value
			continue
		}
		left = append(left, key)
		writers = append(writers, others[key]...)
	}
	slices.Sort(left)
	slices.Sort(writers)
	return keep, left, slices.Compact(writers)
}
