package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
)

// faultKind is one way in which a simulated node can break.
type faultKind struct {
	name   string // "xid-N" stands for every number
	perGPU bool
	effect string // what will be seen
}

var faultKinds = []faultKind{
	{"device-plugin", false, "the device plugin's pod fails, and its resources are not allocatable until it is healed; running pods are not affected"},
	{"driver", false, "the driver does not respond: every GPU is unhealthy, none is allocatable, and nvidia-smi shows why"},
	{"image", false, "images cannot be pulled: new pods show ErrImagePull, then ImagePullBackOff; running pods are not affected"},
	{"kubelet", false, "the kubelet does not report: after the grace period the node is NotReady, and its pods are evicted unless they tolerate it"},
	{"oom", true, "the program that uses the GPU uses more memory than its limit: it is killed with exit code 137 (OOMKilled), each time that it runs, until the fault is healed"},
	{"rank-hang", true, "the program that uses the GPU hangs: no utilization, no log lines, no answer to SIGTERM; the other ranks of its training job wait for it, busy and silent, until the fault is healed"},
	{"thermal", true, "the GPU overheats and slows down: temperature and clocks show it; it remains healthy"},
	{"xid-N", true, ""},
}

// fault is one entry of the annotation berth.dev/faults: "KIND" or "KIND/GPU".
type fault struct {
	kind string
	gpu  int // -1 is the whole node
}

// String returns the fault as the annotation has it.
func (f fault) String() string {
	if f.gpu < 0 {
		return f.kind
	}
	return f.kind + "/" + strconv.Itoa(f.gpu)
}

func compareFaults(a, b fault) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.gpu, b.gpu))
}

// parseKind finds the kind of a fault, with what it does, or says what is near.
func parseKind(name string) (faultKind, error) {
	if number, ok := strings.CutPrefix(name, "xid-"); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > 999 || strconv.Itoa(n) != number {
			return faultKind{}, term.Usagef("invalid kind %q: an Xid must be a number from 1 to 999, as in xid-79", name)
		}
		x := gpu.Xid(n)
		effect := fmt.Sprintf("Xid %d, %s. %s ", n, x.Name, x.Meaning)
		if x.Healthy {
			effect += "The GPU remains healthy, as in NVIDIA's catalog: only events and metrics show it"
		} else {
			effect += "The GPU is unhealthy and allocatable decreases by one; the pod that uses it keeps it until it ends, and a training job moves away"
		}
		return faultKind{name, true, effect}, nil
	}
	var names []string
	for _, k := range faultKinds {
		if k.name == name {
			return k, nil
		}
		names = append(names, k.name)
	}
	if near := gpu.NearestWord(name, names); near != "" {
		return faultKind{}, term.Usagef("unknown kind %q; did you mean %q?", name, near)
	}
	return faultKind{}, term.Usagef("unknown kind %q; must be one of %s", name, strings.Join(names, ", "))
}

// parseTarget reads NODE or NODE/GPU; the index is -1 where there is none.
func parseTarget(text string) (node string, index int, err error) {
	node, number, cut := strings.Cut(text, "/")
	if node == "" {
		return "", 0, term.Usagef("invalid target %q: must be a node, as in gpu-node-1, or a GPU, as in gpu-node-1/0", text)
	}
	if !cut {
		return node, -1, nil
	}
	index, err = strconv.Atoi(number)
	if err != nil || index < 0 {
		return "", 0, term.Usagef("invalid target %q: the part after the slash must be the index of a GPU, as in %s/0", text, node)
	}
	return node, index, nil
}

// readFaults reads the annotation; anything but a list of faults is an error.
func readFaults(notes map[string]string) ([]fault, error) {
	raw, ok := notes[api.AnnotationFaults]
	if !ok || raw == "" {
		return nil, nil
	}
	var entries []string
	if err := json.Unmarshal([]byte(raw), &entries); err != nil {
		return nil, fmt.Errorf("read annotation %s: %w; remove it with `kubectl annotate node NODE %s-`", api.AnnotationFaults, err, api.AnnotationFaults)
	}
	var out []fault
	for _, e := range entries {
		f := fault{e, -1}
		if kind, index, ok := strings.Cut(e, "/"); ok {
			n, err := strconv.Atoi(index)
			if err != nil {
				return nil, fmt.Errorf("read annotation %s: %q is not a known fault; remove it with `kubectl annotate node NODE %s-`",
					api.AnnotationFaults, e, api.AnnotationFaults)
			}
			f = fault{kind, n}
		}
		out = append(out, f)
	}
	slices.SortFunc(out, compareFaults)
	return out, nil
}

// writeFaults is the annotation's value; nil removes it.
func writeFaults(list []fault) *string {
	if len(list) == 0 {
		return nil
	}
	var entries []string
	for _, f := range list {
		entries = append(entries, f.String())
	}
	slices.Sort(entries)
	raw, err := json.Marshal(entries)
	if err != nil {
		panic(err) // strings always marshal
	}
	text := string(raw)
	return &text
}

// locate checks a fault against the GPUs of its node. A fault of one GPU that
// names none is of GPU 0.
func locate(k faultKind, node string, index int, gpus []devices.InventoryGPU) (fault, error) {
	f := fault{k.name, index}
	if !k.perGPU {
		if index >= 0 {
			return f, term.Usagef("%s breaks a whole node: use %s instead of %s/%d", k.name, node, node, index)
		}
		return f, nil
	}
	f.gpu = max(0, index)
	known := slices.ContainsFunc(gpus, func(g devices.InventoryGPU) bool { return g.Index == f.gpu })
	switch {
	case len(gpus) == 0:
		return f, term.Usagef("node %s has no GPUs, and %s breaks a GPU", node, k.name)
	case !known:
		return f, term.Usagef("node %s has no GPU %d: its GPUs are 0 to %d", node, f.gpu, len(gpus)-1)
	}
	return f, nil
}
