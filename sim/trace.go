package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
)

// The largest figures that a file may have.
const (
	mostCPUMilli  = 1_000_000_000
	mostMemoryMiB = 1 << 32
	mostGPUs      = 127
	mostTogether  = 10_000 // pods of a gang
	mostSeconds   = 1e10
)

// models are the names that the openb trace gives to GPUs, with the memory of
// each in MiB. G2 and G3 are not disclosed.
//
// Source: github.com/alibaba/clusterdata, cluster-trace-gpu-v2023, and NVIDIA's
// data sheets.
var models = map[string]int64{
	"P100": 16384, "T4": 15360, "A10": 23028, "V100M16": 16384, "V100M32": 32768, "G2": 0, "G3": 0,
}

// modelMemory returns the memory in MiB of a GPU model of the trace or a product
// of the catalog, 0 where it is not disclosed, and whether it is known.
func modelMemory(model string) (int64, bool) {
	if mib, ok := models[model]; ok {
		return mib, true
	}
	p, ok := gpu.Find(model)
	return p.MemoryMiB, ok
}

// unknownModel says what is wrong with a model that no one knows.
func unknownModel(model string) string {
	names := make([]string, 0, len(models))
	for name := range models {
		names = append(names, name)
	}
	slices.Sort(names)
	near := gpu.NearestWord(model, names)
	if near == "" {
		near = gpu.Nearest(model)
	}
	if near != "" {
		return fmt.Sprintf("unknown GPU model %q; the nearest is %s", model, near)
	}
	return fmt.Sprintf("unknown GPU model %q; known are %s and NVIDIA's product names, such as \"NVIDIA H100 80GB HBM3\"", model, strings.Join(names, ", "))
}

// ReadNodes reads nodes as the openb trace lists them: columns sn (or name),
// cpu_milli, memory_mib, gpu (their number) and model. Optional columns are
// ours: gpu_memory_mib (of each GPU; with it, any model is known), clique_gpus
// (GPUs to an NVLink clique; 0 is none) and mig (the profiles that each GPU is
// cut into, separated by "|").
//
// It refuses a missing column, a bad or negative number, an unknown model, bad
// MIG profiles and a second node of the same name, with file:line:column.
func ReadNodes(file string, in io.Reader) ([]cluster.Spec, error) {
	t, err := newTable(file, in, "sn|name", "cpu_milli", "memory_mib", "gpu", "model")
	if err != nil {
		return nil, err
	}
	name := "sn"
	if !t.has(name) {
		name = "name"
	}
	return rows(t, name, "node", func() (cluster.Spec, string) {
		n := t.node(name)
		return n, n.Name
	})
}

// rows reads what is left of t, a kind of thing a row, and refuses one without
// a name, one that is there twice, and a file with none.
func rows[T any](t *table, nameColumn, kind string, read func() (row T, name string)) ([]T, error) {
	var out []T
	seen := map[string]bool{}
	for {
		more, err := t.next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		row, name := read()
		switch {
		case name == "":
			t.refuse(nameColumn, "a %s without a name", kind)
		case seen[name]:
			t.refuse(nameColumn, "%s %s is there twice; give each %s a name of its own", kind, name, kind)
		}
		if t.err != nil {
			return nil, t.err
		}
		seen[name] = true
		out = append(out, row)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s:1:1: no %ss; there must be one at least", t.file, kind)
	}
	return out, nil
}

// node makes a node of the row.
func (t *table) node(name string) cluster.Spec {
	n := cluster.Spec{
		Name:        t.text(name),
		CPUMilli:    t.number("cpu_milli", mostCPUMilli, false),
		MemoryBytes: t.number("memory_mib", mostMemoryMiB, false) << 20,
	}
	count, model := t.number("gpu", mostGPUs, false), t.text("model")
	if count == 0 {
		return n
	}
	memory, known := modelMemory(model)
	if mib := t.number("gpu_memory_mib", mostMemoryMiB, true); mib > 0 {
		memory, known = mib, model != ""
	}
	if !known {
		t.refuse("model", "%s", unknownModel(model))
	}
	clique := t.number("clique_gpus", mostGPUs, true)
	var devices []gpu.MIGDevice
	if cut := t.text("mig"); cut != "" {
		p, _ := gpu.Find(model)
		var err error
		if devices, err = gpu.Layout(p, strings.Split(cut, "|")); err != nil {
			t.refuse("mig", "%s", err)
		}
	}
	for i := range int(count) {
		g := gpu.GPU{
			Index: i, Product: model, MemoryBytes: memory << 20, NUMANode: -1, Healthy: true,
			MIGEnabled: len(devices) > 0, MIG: devices,
		}
		if clique > 0 {
			g.Clique = i/int(clique) + 1
		}
		n.GPUs = append(n.GPUs, g)
	}
	return n
}

// Pod is one row of a trace.
type Pod struct {
	Name           string
	CPUMilli       int64
	MemoryBytes    int64
	GPUs           int
	MilliGPU       int      // of each GPU
	GPUMemoryBytes int64    // of each GPU, instead of MilliGPU; 0 is none
	Profile        string   // MIG profile, instead of MilliGPU; "" is none
	Models         []string // allowed, sorted, each once; none is any
	Pods           int      // like this that start together, as one job; 0 is 1. Only Queue heeds it
	User, QoS      string   // "" if the trace has none

	Arrival    float64 // seconds
	HasArrival bool
	Run        float64 // seconds
	HasRun     bool
	Most       float64 // seconds that it runs at most, as it declares; 0 is that it declares nothing
}

// ReadPods reads pods as the openb trace lists them: columns name, cpu_milli,
// memory_mib, num_gpu and gpu_milli; optional are gpu_spec (allowed models,
// separated by "|"), qos, and creation_time, scheduled_time and deletion_time (in
// seconds). Optional columns of ours: gpu_memory_mib (a share by memory),
// mig_profile, pods (that start together), user, arrival_seconds and run_seconds.
//
// nodes say which models there are. It refuses a missing column, a bad or
// negative number, a model that neither nodes nor the catalog has, and a
// second pod of the same name, with file:line:column.
func ReadPods(file string, in io.Reader, nodes []cluster.Spec) ([]Pod, error) {
	t, err := newTable(file, in, "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for i := range nodes {
		for j := range nodes[i].GPUs {
			known[nodes[i].GPUs[j].Product] = true
		}
	}
	return rows(t, "name", "pod", func() (Pod, string) {
		p := t.pod(known)
		return p, p.Name
	})
}

// pod makes a pod of the row.
func (t *table) pod(known map[string]bool) Pod {
	p := Pod{
		Name:        t.text("name"),
		CPUMilli:    t.number("cpu_milli", mostCPUMilli, false),
		MemoryBytes: t.number("memory_mib", mostMemoryMiB, false) << 20,
		GPUs:        int(t.number("num_gpu", mostGPUs, false)),
		User:        t.text("user"),
		QoS:         t.text("qos"),
	}
	byMemory, profile := t.number("gpu_memory_mib", mostMemoryMiB, true)<<20, t.text("mig_profile")
	milli := int(t.number("gpu_milli", cluster.Whole, byMemory > 0 || profile != ""))
	if p.GPUs > 0 {
		p.MilliGPU, p.GPUMemoryBytes, p.Profile = milli, byMemory, profile
		p.Models = t.spec(known)
		r := cluster.Request{GPUs: 1, MilliGPU: int32(milli), GPUMemoryBytes: byMemory, Profile: profile}
		if err := r.Validate(); err != nil {
			t.refuse("gpu_milli", "%s", err)
		}
	}
	p.Pods = int(t.number("pods", mostTogether, true))
	p.times(t)
	return p
}

// spec reads gpu_spec.
func (t *table) spec(known map[string]bool) []string {
	text := t.text("gpu_spec")
	if text == "" {
		return nil
	}
	var out []string
	for model := range strings.SplitSeq(text, "|") {
		model = strings.TrimSpace(model)
		if _, ok := modelMemory(model); !ok && !known[model] {
			t.refuse("gpu_spec", "%s", unknownModel(model))
		}
		out = append(out, model)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// times reads when the pod came and how long it ran: from its start, or its
// creation where the file has no starts. A pod that never started has not run.
func (p *Pod) times(t *table) {
	created, hasCreated := t.seconds("creation_time")
	started, hasStarted := t.seconds("scheduled_time")
	deleted, hasDeleted := t.seconds("deletion_time")
	p.Arrival, p.HasArrival = created, hasCreated
	if !t.has("scheduled_time") {
		started, hasStarted = created, hasCreated
	}
	if hasStarted && hasDeleted && deleted > started {
		p.Run, p.HasRun = deleted-started, true
	}
	if at, ok := t.seconds("arrival_seconds"); ok {
		p.Arrival, p.HasArrival = at, true
	}
	if run, ok := t.seconds("run_seconds"); ok {
		p.Run, p.HasRun = run, run > 0
	}
}

// Requests turns pods into requests to s. A pod that allows no model of s gets
// cluster.NoProduct, so that it fits nowhere.
func Requests(s *cluster.Snapshot, pods []Pod) []cluster.Request {
	out := make([]cluster.Request, len(pods))
	for i := range pods {
		p := &pods[i]
		out[i] = cluster.Request{
			CPUMilli: p.CPUMilli, MemoryBytes: p.MemoryBytes, GPUs: int32(p.GPUs),
			MilliGPU: int32(p.MilliGPU), GPUMemoryBytes: p.GPUMemoryBytes, Profile: p.Profile,
		}
		if p.GPUs == 0 {
			out[i].MilliGPU = 0
		}
		for _, model := range p.Models {
			if set, err := s.Products(model); err == nil {
				out[i].Products |= set
			}
		}
		if len(p.Models) > 0 && out[i].Products == 0 {
			out[i].Products = cluster.NoProduct
		}
	}
	return out
}
