package spec

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/strictyaml"
)

// What a node has where its group says nothing.
const (
	defaultCPU       = 32
	defaultMemoryGiB = 128
	defaultPods      = 110
	defaultZone      = "sim-1a"
	defaultInstance  = "berth-simulated"
	defaultDriver    = "570.124.06"
	defaultCUDA      = "12.8"
)

// The most of each that a node may have. Pods share a /24 of the simulated
// network; the largest servers NVIDIA has sold hold 16 GPUs.
const (
	maxCPU       = 1024
	maxMemoryGiB = 32 << 10
	maxPods      = 250
	maxGPUs      = 16
)

// builder turns the document of one file into a fleet.
type builder struct {
	file  string
	data  []byte
	lines map[string]int // node name -> line of the group that defined it
}

// refuse returns the error for the field at a path such as
// "nodes[2].gpus.product". fix says what to write instead. Where the file does
// not hold the path itself, the line is that of what surrounds it.
func (b *builder) refuse(path, fix, message string, args ...any) error {
	return &strictyaml.Error{File: b.file, Line: strictyaml.Locate(b.data, path), Field: path, Message: fmt.Sprintf(message, args...), Fix: fix}
}

// wrap returns the error of another package as one of the field at path. What
// stands behind its last semicolon is the fix.
func (b *builder) wrap(path string, err error) error {
	text := err.Error()
	if i := strings.LastIndex(text, "; "); i >= 0 {
		return b.refuse(path, text[i+2:], "%s", text[:i])
	}
	return b.refuse(path, "", "%s", text)
}

// entry appends a key of the user's to a path, as strictyaml.Locate reads it.
func entry(path, key string) string { return path + "[" + strconv.Quote(key) + "]" }

// didYouMean offers the nearest of the known words, or all of them.
func didYouMean(word string, known []string) string {
	if near := gpu.NearestWord(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "use one of " + strings.Join(known, ", ")
}

func (b *builder) fleet(d document) (Fleet, error) {
	f := Fleet{Name: d.Name, System: d.System == nil || *d.System}
	for i, g := range d.Nodes {
		path := fmt.Sprintf("nodes[%d]", i)
		nodes, err := b.group(path, g, &f)
		if err != nil {
			return Fleet{}, err
		}
		if f.Nodes = append(f.Nodes, nodes...); len(f.Nodes) > MaxNodes {
			return Fleet{}, b.refuse(path, "use fewer nodes", "%d nodes so far; a fleet has at most %d", len(f.Nodes), MaxNodes)
		}
	}
	return f, nil
}

// group returns the nodes of one entry of nodes, and adds what its sharing
// document was warned about to f.
func (b *builder) group(path string, g group, f *Fleet) ([]Node, error) {
	list, err := b.names(path, g)
	if err != nil {
		return nil, err
	}
	n, err := b.node(path, g)
	if err != nil {
		return nil, err
	}
	shared, warnings, err := b.sharing(path, g)
	if err != nil {
		return nil, err
	}
	f.Warnings = append(f.Warnings, warnings...)
	n.Sharing = shared
	nodes := make([]Node, len(list))
	for i, name := range list {
		n.Name = name
		if n.GPUs, err = b.gpus(path, name, g); err != nil {
			return nil, err
		}
		if i == 0 { // all nodes of a group are alike
			if err := b.offered(path, n, g); err != nil {
				return nil, err
			}
		}
		nodes[i] = n
		nodes[i].Labels, nodes[i].Sharing.Replicas = maps.Clone(n.Labels), maps.Clone(n.Sharing.Replicas)
	}
	return nodes, nil
}

// number is where a group's name takes the number of the node.
var number = regexp.MustCompile(`\{n+\}`)

// names returns the names of a group's nodes, which are valid and new.
func (b *builder) names(path string, g group) ([]string, error) {
	count, at := 1, path+".name"
	if g.Count != nil {
		count = *g.Count
	}
	switch mark := number.FindString(g.Name); {
	case g.Name == "":
		return nil, b.refuse(at, "give the node a name, such as gpu-node-1", "a node needs a name")
	case count < 1 || count > MaxNodes:
		return nil, b.refuse(path+".count", "leave it out for one node", "the number of nodes must be from 1 to %d, not %d", MaxNodes, count)
	case g.Count != nil && mark == "" && count > 1:
		return nil, b.refuse(at, fmt.Sprintf("write %q", g.Name+"-{n}"), "%d nodes cannot share one name", count)
	}
	list, line := make([]string, count), strictyaml.Locate(b.data, at)
	for i := range list {
		list[i] = number.ReplaceAllStringFunc(g.Name, func(mark string) string {
			return fmt.Sprintf("%0*d", len(mark)-2, i+1)
		})
		if err := b.name(at, list[i]); err != nil {
			return nil, err
		}
		if first, ok := b.lines[list[i]]; ok {
			return nil, b.refuse(at, "give it another name", "node %q is already defined on line %d", list[i], first)
		}
		b.lines[list[i]] = line
	}
	return list, nil
}

// node returns what all nodes of a group have in common, but for GPUs.
func (b *builder) node(path string, g group) (Node, error) {
	n := Node{
		Zone: g.Zone, InstanceType: g.InstanceType, CapacityType: CapacityType(g.CapacityType), Machine: g.Machine,
		CPU: defaultCPU, MemoryGiB: defaultMemoryGiB, Pods: defaultPods,
		Labels: g.Labels, Taints: g.Taints, Driver: g.Driver, CUDA: g.CUDA,
	}
	for _, field := range []struct {
		name string
		set  *int
		into *int
		most int
	}{{"cpu", g.CPU, &n.CPU, maxCPU}, {"memoryGiB", g.MemoryGiB, &n.MemoryGiB, maxMemoryGiB}, {"pods", g.Pods, &n.Pods, maxPods}} {
		if field.set == nil {
			continue
		}
		if *field.into = *field.set; *field.set < 1 || *field.set > field.most {
			return Node{}, b.refuse(path+"."+field.name, fmt.Sprintf("use a number from 1 to %d", field.most), "%d is out of range", *field.set)
		}
	}
	if p := g.PricePerHour; p != nil {
		if !(*p >= 0 && *p <= 1e6) || math.Signbit(*p) {
			return Node{}, b.refuse(path+".pricePerHour", "give dollars per hour, such as 21.96, or leave it out", "%v is not a price", *p)
		}
		n.PricePerHour = strconv.FormatFloat(*p, 'f', -1, 64)
	}
	n.Zone, n.InstanceType = or(n.Zone, defaultZone), or(n.InstanceType, defaultInstance)
	n.CapacityType = CapacityType(or(g.CapacityType, string(OnDemand)))
	if g.GPUs != nil && g.Driver == "" && g.CUDA == "" {
		n.Driver, n.CUDA = defaultDriver, defaultCUDA
	}
	return n, b.words(path, n, g)
}

// or returns value, or instead where value is empty.
func or(value, instead string) string {
	if value == "" {
		return instead
	}
	return value
}
