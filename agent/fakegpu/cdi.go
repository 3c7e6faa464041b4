package fakegpu

import (
	"encoding/json"
	"fmt"
)

// cdiSpec is as much of a CDI specification as fake GPUs need.
//
// Source: Container Device Interface, SPEC.md, version 0.6.0.
type cdiSpec struct {
	Version string      `json:"cdiVersion"`
	Kind    string      `json:"kind"`
	Devices []cdiDevice `json:"devices"`
	Edits   cdiEdits    `json:"containerEdits"`
}

type cdiDevice struct {
	Name  string   `json:"name"`
	Edits cdiEdits `json:"containerEdits"`
}

type cdiEdits struct {
	Env   []string  `json:"env,omitempty"`
	Nodes []cdiNode `json:"deviceNodes,omitempty"`
}

type cdiNode struct {
	Path     string `json:"path"`
	HostPath string `json:"hostPath,omitempty"`
}

// CDI returns a specification with the device nodes of the file. Each device also
// sets an environment variable of its own, BERTH_FAKE_GPU_<index> or
// BERTH_FAKE_GPU_<index>_<GI>_<CI>, to its UUID.
func (l *Library) CDI() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(); err != nil {
		return nil, err
	}
	spec := cdiSpec{Version: "0.6.0", Kind: "nvidia.com/gpu", Edits: cdiEdits{Env: []string{"BERTH_FAKE_GPUS=true"}}}
	mine := map[string]bool{} // nodes of a device, by their path
	for i, c := range l.present() {
		if l.isLost(c) {
			continue
		}
		name := fmt.Sprintf("BERTH_FAKE_GPU_%d", i)
		own := cdiNodes(l.nodes(c, ""))
		spec.Devices = append(spec.Devices, cdiDevice{c.g.UUID, cdiEdits{[]string{name + "=" + c.g.UUID}, own}})
		for _, m := range c.g.MIG {
			e := cdiEdits{Env: []string{fmt.Sprintf("%s_%d_%d=%s", name, m.GI, m.CI, m.UUID)}}
			e.Nodes = append(append(e.Nodes, own...), cdiNodes(l.nodes(c, m.UUID))...)
			spec.Devices = append(spec.Devices, cdiDevice{m.UUID, e})
		}
	}
	for _, c := range l.cards {
		for _, n := range l.nodes(c, "") {
			mine[n.Path] = true
		}
	}
	for _, n := range l.file.DeviceNodes {
		if n.GPU == nil && n.MIG == nil && !mine[n.Path] {
			spec.Edits.Nodes = append(spec.Edits.Nodes, cdiNodes([]DeviceNode{n})...)
		}
	}
	return json.Marshal(spec)
}

func cdiNodes(list []DeviceNode) []cdiNode {
	var out []cdiNode
	for _, n := range list {
		c := cdiNode{Path: n.Path}
		if n.HostPath != n.Path {
			c.HostPath = n.HostPath
		}
		out = append(out, c)
	}
	return out
}
