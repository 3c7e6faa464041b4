package main

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
)

// trace is a cluster and pods in openb's format. It is read here once more,
// apart from package sim: what judges is to share nothing with what is judged.
type trace struct {
	nodesFile, podsFile string
	nodes               []traceNode
	pods                []tracePod
	gpus                int // of all nodes
}

// traceNode is what is alike in a group of nodes.
type traceNode struct {
	cpuMilli, memoryMiB, gpus int
	model                     string
}

// tracePod is one row of a pod list.
type tracePod struct {
	name                string
	cpuMilli, memoryMiB int64
	gpus, milli         int // milli-GPUs of each
	models              []string
}

// totalMilli is what it asks for of all GPUs.
func (row tracePod) totalMilli() int { return row.gpus * row.milli }

// product is the GPU that stands for a model of the trace, as a fleet file and
// as the label of a node names it.
type product struct{ name, label string }

// models returns a product of the same memory for each model. G2 and G3 are not
// disclosed; two that no other model takes stand for them.
func models() map[string]product {
	return map[string]product{
		"P100":    {"Tesla P100-PCIE-16GB", "Tesla-P100-PCIE-16GB"},
		"T4":      {"Tesla T4", "Tesla-T4"},
		"A10":     {"NVIDIA A10", "NVIDIA-A10"},
		"V100M16": {"Tesla V100-SXM2-16GB", "Tesla-V100-SXM2-16GB"},
		"V100M32": {"Tesla V100-SXM2-32GB", "Tesla-V100-SXM2-32GB"},
		"G2":      {"NVIDIA A10G", "NVIDIA-A10G"},
		"G3":      {"NVIDIA L40S", "NVIDIA-L40S"},
	}
}

// readTrace reads a node list and a pod list.
func readTrace(nodes, pods string) (*trace, error) {
	t := &trace{nodesFile: nodes, podsFile: pods}
	err := readRows(nodes, func(row func(string) string) {
		n := traceNode{atoi(row("cpu_milli")), atoi(row("memory_mib")), atoi(row("gpu")), row("model")}
		t.nodes = append(t.nodes, n)
		t.gpus += n.gpus
	})
	if err != nil {
		return nil, err
	}
	err = readRows(pods, func(row func(string) string) {
		p := tracePod{name: row("name"), cpuMilli: int64(atoi(row("cpu_milli"))), memoryMiB: int64(atoi(row("memory_mib"))), gpus: atoi(row("num_gpu")), milli: atoi(row("gpu_milli"))}
		if spec := row("gpu_spec"); spec != "" {
			p.models = slices.Compact(slices.Sorted(slices.Values(strings.Split(spec, "|"))))
		}
		t.pods = append(t.pods, p)
	})
	return t, err
}

// atoi reads a whole number; berth simulate, which reads the same file before,
// refuses what is none.
func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// readRows calls fn for each row, with what gives a column's cell, or "" for a
// column that the file lacks.
func readRows(path string, fn func(row func(column string) string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for _, cells := range rows[min(1, len(rows)):] {
		fn(func(column string) string {
			if i := slices.Index(rows[0], column); i >= 0 {
				return cells[i]
			}
			return ""
		})
	}
	return nil
}

// arrivals gives pods in the order of the FGD protocol for a seed: shuffled,
// then drawn again until they ask for load times the GPUs; where they ask for
// more at once, random ones are left out. The first random number is dropped.
//
// Source: the artifact of Weng et al., "Beware of Fragmentation", USENIX ATC
// '23, as docs/background/placement.md tells it.
func (t *trace) arrivals(seed int64, load float64) []tracePod {
	rng := rand.New(rand.NewSource(seed))
	sorted := slices.Clone(t.pods)
	slices.SortStableFunc(sorted, func(a, b tracePod) int { return cmp.Compare(a.name, b.name) })
	rng.Int()
	out := slices.Clone(sorted)
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	target, total := load*float64(1000*t.gpus), 0
	for _, p := range out {
		total += p.totalMilli()
	}
	for float64(total) < target {
		p := sorted[rng.Intn(len(sorted))]
		if p.gpus > 0 && float64(total+p.milli) > target {
			break
		}
		out = append(out, p)
		total += p.totalMilli()
	}
	for float64(total) > target && len(out) > 0 {
		i := rng.Intn(len(out))
		total -= out[i].totalMilli()
		out = slices.Delete(out, i, i+1)
	}
	return out
}

// writeFleet writes a fleet file of the trace's nodes: no NVLink and no system
// pods, of which the trace knows nothing.
func (t *trace) writeFleet(path string) error {
	type gpus struct {
		Product string `json:"product"`
		Count   int    `json:"count"`
		NVLink  bool   `json:"nvlink"`
	}
	type group struct {
		Name      string `json:"name"`
		Count     int    `json:"count"`
		CPU       int    `json:"cpu"`
		MemoryGiB int    `json:"memoryGiB"`
		Pods      int    `json:"pods"`
		GPUs      *gpus  `json:"gpus,omitempty"`
	}
	count := map[traceNode]int{}
	var kinds []traceNode
	for _, n := range t.nodes {
		if count[n]++; count[n] == 1 {
			kinds = append(kinds, n)
		}
	}
	var groups []group
	for i, k := range kinds {
		g := group{Name: fmt.Sprintf("openb-%02d-{nnnn}", i), Count: count[k], CPU: k.cpuMilli / 1000, MemoryGiB: k.memoryMiB >> 10, Pods: 250}
		if k.gpus > 0 {
			p, ok := models()[k.model]
			if !ok {
				return fmt.Errorf("%s: no product is known that stands for GPU model %q", t.nodesFile, k.model)
			}
			g.GPUs = &gpus{Product: p.name, Count: k.gpus}
		}
		groups = append(groups, g)
	}
	raw, err := json.MarshalIndent(map[string]any{"name": "openb", "system": false, "nodes": groups}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o600)
}
