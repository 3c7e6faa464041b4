package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/gpu"
)

// faults is what `berth sim break` put on a node.
type faults struct {
	kubelet, plugin, image, driver bool
	xid                            map[int]int  // Xid by GPU index
	thermal, hang, oom             map[int]bool // by GPU index
}

// parseFaults reads the annotation berth.dev/faults: a JSON list of KIND or
// KIND/GPU. A kind of GPU without an index means all of the node's count GPUs.
// What it cannot read it leaves out and reports.
func parseFaults(note string, count int) (faults, error) {
	f := faults{xid: map[int]int{}, thermal: map[int]bool{}, hang: map[int]bool{}, oom: map[int]bool{}}
	if note == "" {
		return f, nil
	}
	var list []string
	if err := json.Unmarshal([]byte(note), &list); err != nil {
		return f, fmt.Errorf("annotation berth.dev/faults is not a JSON list: %w; use berth sim break and heal", err)
	}
	var unknown []string
	for _, item := range list {
		kind, index, ok := target(item, count)
		if !ok || !f.set(kind, index) {
			unknown = append(unknown, item)
		}
	}
	if unknown != nil {
		return f, fmt.Errorf("annotation berth.dev/faults: %s: no such fault or GPU; use berth sim break and heal", strings.Join(unknown, ", "))
	}
	return f, nil
}

// target cuts KIND/GPU into the kind and the GPUs.
func target(item string, count int) (kind string, gpus []int, ok bool) {
	kind, number, one := strings.Cut(item, "/")
	if one {
		i, err := strconv.Atoi(number)
		return kind, []int{i}, err == nil && i >= 0 && i < count
	}
	for i := range count {
		gpus = append(gpus, i)
	}
	return kind, gpus, true
}

// mostXid is the greatest Xid that can be put on a GPU, as for berth sim break.
const mostXid = 999

func (f *faults) set(kind string, gpus []int) bool {
	switch kind {
	case "kubelet":
		f.kubelet = true
	case "device-plugin":
		f.plugin = true
	case "image":
		f.image = true
	case "driver":
		f.driver = true
	case "thermal":
		mark(f.thermal, gpus)
	case "rank-hang":
		mark(f.hang, gpus)
	case "oom":
		mark(f.oom, gpus)
	default:
		code, ok := strings.CutPrefix(kind, "xid-")
		n, err := strconv.Atoi(code)
		if !ok || err != nil || n <= 0 || n > mostXid {
			return false
		}
		for _, i := range gpus {
			f.xid[i] = n
		}
	}
	return true
}

func mark(faulty map[int]bool, gpus []int) {
	for _, i := range gpus {
		faulty[i] = true
	}
}

// apply returns GPUs with the faults on them. As NVIDIA's device plugin does,
// some Xids leave a GPU healthy.
func (f faults) apply(gpus []gpu.GPU) []gpu.GPU {
	out := slices.Clone(gpus)
	for i := range out {
		if code := f.xid[out[i].Index]; code != 0 {
			out[i].Xid, out[i].Healthy = code, gpu.Xid(code).Healthy
		}
		if f.driver {
			out[i].Healthy = false
		}
	}
	return out
}

// setFaults puts the faults of the annotation in force, with mu held: GPUs turn
// unhealthy or healthy, pods hear of it, and whatever waited for a heal is tried
// again.
func (n *node) setFaults(note string, now time.Time) {
	if note == n.noted {
		return
	}
	n.noted = note
	before := n.faults
	after, err := parseFaults(note, len(n.spec.GPUs))
	if err != nil {
		n.event(v1.EventTypeWarning, "UnknownFault", err.Error())
	}
	n.faults = after
	n.mig.due = n.mig.due || n.mig.label != ""
	if err := n.setDevices(n.spec.Sharing); err != nil {
		n.fleet.log.Warn("a fault is not active", "node", n.name, "error", err)
	}
	n.tell(before, after)
	for _, p := range n.pods {
		for _, c := range p.containers {
			if before.image && !after.image && c.pulls > 0 {
				c.pulls, c.retry = 0, now
			}
			if p.plugin && before.plugin && !after.plugin {
				c.crashes, c.retry = 0, now
			}
			if p.plugin && !before.plugin && after.plugin && c.running() {
				c.crash(pluginFault, now)
			}
			c.starve(before, after, now)
		}
		n.fleet.queue.Add(p)
	}
}

// tell writes the events of faults that came.
func (n *node) tell(before, after faults) {
	for i := range n.gpus {
		g := n.gpus[i]
		if code := after.xid[i]; code != 0 && code != before.xid[i] {
			x := gpu.Xid(code)
			n.event(v1.EventTypeWarning, "GPUXid", fmt.Sprintf("GPU %d (%s): Xid %d, %s: %s; %s", i, g.UUID, code, x.Name, x.Meaning, x.Action))
		}
		if after.thermal[i] && !before.thermal[i] {
			n.event(v1.EventTypeWarning, "GPUThermal", fmt.Sprintf("GPU %d (%s): temperature 92 C, clocks are slowed down", i, g.UUID))
		}
	}
	if after.driver && !before.driver {
		n.event(v1.EventTypeWarning, "GPUDriver", "the NVIDIA driver does not answer: all GPUs of the node are unhealthy")
	}
	if after.plugin && !before.plugin {
		n.event(v1.EventTypeWarning, "DevicePlugin", "the NVIDIA device plugin has stopped: its resources are not allocatable")
	}
}
