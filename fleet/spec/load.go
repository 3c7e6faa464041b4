package spec

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/input"
	"berth.dev/berth/internal/strictyaml"
)

//go:embed fleets/*.yaml
var builtin embed.FS

// None is the fleet without nodes.
const None = "none"

// names of the fleets with a file of their own, as Load takes them.
var names = []string{"lab", "default"}

// all is what Load takes beside files, for messages.
const all = "lab, default, scale:N, none"

// Load returns the fleet that the flag --fleet names: "lab", "default",
// "scale:N" (N nodes of 8 H100, without system pods), "none" (no nodes: the
// control plane alone) or else the path of a fleet file. A file is refused as
// Parse says; an argument that names nothing is refused with the nearest fleet
// there is.
func Load(arg string) (Fleet, error) {
	if count, ok := strings.CutPrefix(arg, "scale:"); ok {
		return Scale(count)
	}
	if arg == None {
		return Fleet{Name: None}, nil
	}
	for _, name := range names {
		if arg == name {
			data, err := builtin.ReadFile("fleets/" + name + ".yaml")
			if err != nil {
				return Fleet{}, fmt.Errorf("read built-in fleet %s: %w", name, err)
			}
			return Parse("fleet "+name, data)
		}
	}
	data, err := input.ReadFile(arg, mostFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Fleet{}, unknown(arg)
	}
	if err != nil {
		return Fleet{}, fmt.Errorf("read fleet file: %w; give a readable file, or one of %s", err, all)
	}
	return Parse(arg, data)
}

// mostFile is the most bytes of a fleet file: MaxNodes written one by one take a
// quarter of it.
const mostFile = 8 << 20

// unknown says that arg is neither a fleet nor a file.
func unknown(arg string) error {
	if near := gpu.NearestWord(arg, append([]string{"scale:100", None}, names...)); near != "" && !strings.ContainsAny(arg, "/.") {
		return fmt.Errorf("fleet %q: no such fleet or file; did you mean %q?", arg, near)
	}
	return fmt.Errorf("fleet %q: no such file; give a fleet file, or one of %s", arg, all)
}

// MaxNodes is the most nodes of a fleet: what Kubernetes is tested with.
const MaxNodes = 5000

// Scale returns the fleet scale:count: so many nodes gpu-0001, gpu-0002 and on,
// each with 8 H100, and no system pods. count is a decimal from 1 to MaxNodes.
func Scale(count string) (Fleet, error) {
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > MaxNodes {
		return Fleet{}, fmt.Errorf("fleet scale:%s: the number of nodes must be a whole number from 1 to %d; try scale:100", count, MaxNodes)
	}
	data, err := builtin.ReadFile("fleets/scale.yaml")
	if err != nil {
		return Fleet{}, fmt.Errorf("read built-in fleet scale: %w", err)
	}
	return parse("fleet scale:"+count, data, func(d *document) {
		d.Name, d.Nodes[0].Count = "scale-"+count, &n
	})
}

// Parse reads a fleet file; docs/reference/fleet.md describes the format. name stands for
// the file in messages, and its last element without the extension is the name
// of a fleet that gives none.
//
// The first thing found wrong is returned as a *strictyaml.Error with the line, the
// field, what is wrong and the nearest right value.
func Parse(name string, data []byte) (Fleet, error) { return parse(name, data, func(*document) {}) }

// parse is Parse, with a change to the document before it is read.
func parse(name string, data []byte, change func(*document)) (Fleet, error) {
	var d document
	if err := strictyaml.Decode(name, data, &d); err != nil {
		return Fleet{}, err
	}
	if len(d.Nodes) == 0 {
		return Fleet{}, &strictyaml.Error{File: name, Line: 1, Field: "nodes", Message: "a fleet needs at least one node", Fix: "add nodes: [{name: gpu-node-1}]"}
	}
	change(&d)
	b := builder{file: name, data: data, lines: map[string]int{}}
	f, err := b.fleet(d)
	if err != nil {
		return Fleet{}, err
	}
	if f.Name == "" {
		base := filepath.Base(strings.TrimPrefix(name, "fleet "))
		f.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	return f, nil
}
