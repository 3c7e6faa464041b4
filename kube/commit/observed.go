package commit

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
)

// Observed is what a node's agent says it has given to pods that came without a
// commitment: devices by pod UID and container.
type Observed map[string]map[string][]sharing.Named

// ObservedOn reads the annotation berth.dev/observed-devices of a node. It gives nil
// and no error for a node without one: the fleet's, and those without Berth's agent.
func ObservedOn(node *v1.Node) (Observed, error) {
	raw, ok := node.Annotations[api.AnnotationObserved]
	if !ok {
		return nil, nil
	}
	var list map[string]map[string][]committedDevice
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		return nil, fmt.Errorf("node %s: read annotation %s: %w; remove it, and the node agent writes it again", node.Name, api.AnnotationObserved, err)
	}
	out := make(Observed, len(list))
	for uid, containers := range list {
		out[uid] = make(map[string][]sharing.Named, len(containers))
		for name, devices := range containers {
			for _, d := range devices {
				if err := d.check(); err != nil {
					return nil, fmt.Errorf("node %s: annotation %s: pod %s: %w; remove it, and the node agent writes it again", node.Name, api.AnnotationObserved, uid, err)
				}
				out[uid][name] = append(out[uid][name], sharing.Named(d))
			}
		}
	}
	return out, nil
}

// ObservedNote is the value of the annotation berth.dev/observed-devices. Equal
// devices give equal text.
func ObservedNote(reported Observed) (string, error) {
	out := make(map[string]map[string][]committedDevice, len(reported))
	for uid, containers := range reported {
		out[uid] = make(map[string][]committedDevice, len(containers))
		for name, devices := range containers {
			for _, d := range devices {
				out[uid][name] = append(out[uid][name], committedDevice(d))
			}
		}
	}
	raw, err := json.Marshal(out)
	return string(raw), err
}
