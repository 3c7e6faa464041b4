package fakegpu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/strictyaml"
)

// File is a node's GPUs that do not exist, and what happens to them. A person
// writes it as YAML, and edits it while it is in use: Library follows. Every
// After counts from when the file was read, or from when it last changed.
//
// GPUs are named by their place in the file: gpu 0 is the first, counting every
// group's Count. A MIG device is named by its place among those of its GPU, in
// the order of their starts.
type File struct {
	Node   string  `json:"node"`   // UUIDs follow from it; "" is Options.Node
	Driver Version `json:"driver"` // of the NVIDIA driver
	GPUs   []Group `json:"gpus"`
	Work   []Work  `json:"loads"`

	Xids    []Xid    `json:"xid"`
	Lost    []Change `json:"lost"`    // the driver cannot reach them any more
	Removed []Change `json:"removed"` // taken out of the node
	Reset   []Change `json:"reset"`   // once: a pending MIG mode is in force, bad memory rows are replaced
	Remap   []Remap  `json:"remap"`   // bad memory rows
	Needs   []Need   `json:"needs"`   // what the driver asks for, so that a GPU can go on
	Thermal []Change `json:"thermal"` // too hot: clocks are lowered
	Hang    []Trap   `json:"hang"`    // calls that do not return
	Crash   []Trap   `json:"crash"`   // calls that end the process

	DeviceNodes []DeviceNode `json:"deviceNodes"`
}

// Version is what the driver says of itself. To change Version under a process
// that has it loaded is an upgrade: every call fails until a new process comes.
type Version struct {
	Version  string   `json:"version"`  // "" is 570.124.06
	CUDA     string   `json:"cuda"`     // "" is 12.8
	Missing  []string `json:"missing"`  // NVML symbols that it does not have, such as nvmlDeviceSetMemoryLimits_v1
	Unloaded bool     `json:"unloaded"` // the kernel modules are not loaded
	Library  *bool    `json:"library"`  // false: libnvidia-ml.so.1 is not there
}

// Group is GPUs that are alike.
type Group struct {
	Product string `json:"product"` // as core/gpu knows it: "NVIDIA H200", "H200"
	Count   *int   `json:"count"`   // none is 1
	// MIG names the profiles that each GPU is partitioned into. Absent is MIG off; an
	// empty list is MIG on and not cut.
	MIG       *[]string `json:"mig"`
	UUID      string    `json:"uuid"`      // of a group of one; "" follows from node and place
	BusID     string    `json:"busID"`     // of a group of one
	NUMANode  *int      `json:"numaNode"`  // of each; absent is half on 0 and half on 1
	AutoReset bool      `json:"autoReset"` // the driver resets it when the MIG mode changes; else, before Hopper, the mode stays pending
}

// Work is one process on a GPU or MIG device.
type Work struct {
	GPU         int     `json:"gpu"`
	MIG         *int    `json:"mig"` // absent is the whole GPU
	PID         int     `json:"pid"`
	Process     string  `json:"process"`
	Utilization float64 `json:"utilization"` // ratio, 0-1
	MemoryMiB   int64   `json:"memoryMiB"`
	Peers       int     `json:"peers"` // further GPUs that the same process uses over NVLink
}

// Xid is an error that the driver reports once.
type Xid struct {
	GPU   int           `json:"gpu"`
	MIG   *int          `json:"mig"` // absent is the whole GPU
	Code  int           `json:"code"`
	After time.Duration `json:"after"`
}

// Change is something that holds for a GPU from a moment on.
type Change struct {
	GPU   int           `json:"gpu"`
	After time.Duration `json:"after"`
}

// Remap is bad memory rows: Pending until the next reset, or Failed, which no
// reset mends.
type Remap struct {
	GPU     int           `json:"gpu"`
	Pending bool          `json:"pending"`
	Failed  bool          `json:"failed"`
	After   time.Duration `json:"after"`
}

// Need is an action that the driver asks for. A reset of the GPU meets
// ActionReset.
type Need struct {
	GPU    int           `json:"gpu"`
	Action string        `json:"action"` // reset or reboot
	After  time.Duration `json:"after"`
}

// The actions of a Need.
const (
	ActionReset  = "reset"
	ActionReboot = "reboot"
)

// Trap is what happens at a call. With Symbol, a crash is that of a process
// which calls a function that the driver lacks: exit status 127.
type Trap struct {
	Call   string        `json:"call"`   // NVML's name, such as nvmlDeviceGetMemoryInfo_v2
	GPU    *int          `json:"gpu"`    // absent is every GPU
	Symbol bool          `json:"symbol"` // of crash only
	After  time.Duration `json:"after"`
}

// DeviceNode is a node that containers get. With neither GPU nor MIG it is
// common to all; one without GPU whose path is /dev/nvidiaN belongs to GPU N.
type DeviceNode struct {
	Path     string `json:"path"`     // in the container, such as /dev/nvidia0
	HostPath string `json:"hostPath"` // on the node, "" is Path: /dev/null, /dev/zero, /dev/full, or what Parse is told
	GPU      *int   `json:"gpu"`
	MIG      *int   `json:"mig"`
}

// Parse reads a File and checks all of it. The error names file, line, field
// and the next step; it is a *strictyaml.Error. devices are those of the node that
// containers may be given, as CheckDevices has them.
func Parse(name string, data []byte, devices ...string) (File, error) {
	var f File
	if err := strictyaml.Decode(name, data, &f); err != nil {
		return File{}, err
	}
	err := f.check()
	if err == nil {
		err = f.checkNodes(devices)
	}
	if err != nil {
		if e, ok := errors.AsType[*strictyaml.Error](err); ok {
			e.File, e.Line = name, strictyaml.Locate(data, e.Field)
		}
		return File{}, err
	}
	return f, nil
}

// product returns the product of a group.
func (g Group) product() (gpu.Product, error) {
	if p, ok := gpu.Find(g.Product); ok {
		return p, nil
	}
	near := gpu.Nearest(g.Product)
	if p, ok := gpu.Find(near); ok && gpu.ShortName(near) == gpu.ShortName(g.Product) {
		return p, nil
	}
	fix := `write a product's name as the driver does, such as "NVIDIA H200"`
	if near != "" {
		fix = "did you mean " + strconv.Quote(near) + "?"
	}
	return gpu.Product{}, &strictyaml.Error{Message: strconv.Quote(g.Product) + " is not a known GPU", Fix: fix}
}

// count is how many GPUs a group has.
func (g Group) count() int {
	if g.Count == nil {
		return 1
	}
	return *g.Count
}

// check says what is wrong with the values.
func (f File) check() error {
	total := 0
	for i, g := range f.GPUs {
		if err := g.check("gpus["+strconv.Itoa(i)+"]", mostGPUs-total); err != nil {
			return err
		}
		total += g.count()
	}
	if _, _, err := cudaVersion(f.Driver.CUDA); err != nil {
		return bad("driver.cuda", err.Error(), `write it as "12.8"`)
	}
	for _, r := range f.references() {
		if r.gpu != nil && (*r.gpu < 0 || *r.gpu >= total) {
			return bad(r.field+".gpu", fmt.Sprintf("there is no GPU %d", *r.gpu), fmt.Sprintf("the file has %d, counted from 0", total))
		}
		if r.mig != nil && (*r.mig < 0 || *r.mig > 55) {
			return bad(r.field+".mig", fmt.Sprintf("%d is not the position of a MIG device", *r.mig), "count from 0, in the order of starts")
		}
		if r.after < 0 {
			return bad(r.field+".after", "is before the file was read", "write 0s or more")
		}
		if r.after > mostAfter {
			return bad(r.field+".after", fmt.Sprintf("%v is too long", r.after), fmt.Sprintf("write %v or less, or leave the entry out", mostAfter))
		}
	}
	return f.checkRest()
}

// Bounds of what a file may say.
const (
	mostGPUs      = 256
	mostXid       = 999
	mostPID       = 1 << 22 // Linux' own bound
	mostMemoryMiB = 1 << 30 // 1 PiB
	mostAfter     = 10 * 365 * 24 * time.Hour
	mostMinor     = 99 // of a CUDA version
)

func (f File) checkRest() error {
	for i, w := range f.Work {
		if w.Utilization < 0 || w.Utilization > 1 {
			return bad(fmt.Sprintf("loads[%d].utilization", i), "is not a ratio", "write 0 to 1, such as 0.8")
		}
		for _, n := range []struct {
			field    string
			is, most int64
		}{{"memoryMiB", w.MemoryMiB, mostMemoryMiB}, {"pid", int64(w.PID), mostPID}, {"peers", int64(w.Peers), mostGPUs}} {
			if n.is < 0 || n.is > n.most {
				return bad(fmt.Sprintf("loads[%d].%s", i, n.field), fmt.Sprintf("%d is not 0 to %d", n.is, n.most), "")
			}
		}
	}
	for i, x := range f.Xids {
		if x.Code < 1 || x.Code > mostXid {
			return bad(fmt.Sprintf("xid[%d].code", i), "is not an Xid", "write one such as 79; NVIDIA's Xid catalog lists them")
		}
	}
	for i, n := range f.Needs {
		if n.Action != ActionReset && n.Action != ActionReboot {
			return bad(fmt.Sprintf("needs[%d].action", i), strconv.Quote(n.Action)+" is not an action", "write reset or reboot")
		}
	}
	for _, list := range []struct {
		field string
		traps []Trap
	}{{"hang", f.Hang}, {"crash", f.Crash}} {
		for i, t := range list.traps {
			if !slices.Contains(symbols, t.Call) {
				field := fmt.Sprintf("%s[%d].call", list.field, i)
				fix := "name a function of NVML that the agent calls, such as nvmlDeviceGetUUID"
				if near := gpu.NearestWord(t.Call, symbols); near != "" {
					fix = "did you mean " + strconv.Quote(near) + "?"
				}
				return bad(field, strconv.Quote(t.Call)+" is never called", fix)
			}
		}
	}
	return nil
}

// check says what is wrong with a group, of which room may be had.
func (g Group) check(field string, room int) error {
	p, err := g.product()
	if e, ok := errors.AsType[*strictyaml.Error](err); ok {
		e.Field = field + ".product"
		return e
	}
	switch n := g.count(); {
	case n < 0 || n > room:
		return bad(field+".count", fmt.Sprintf("%d is not 0 to %d", n, room), fmt.Sprintf("a node has at most %d GPUs", mostGPUs))
	case n != 1 && g.UUID != "":
		return bad(field+".uuid", "one UUID for several GPUs", "list the GPUs one by one")
	case n != 1 && g.BusID != "":
		return bad(field+".busID", "one PCI address for several GPUs", "list the GPUs one by one")
	}
	if g.UUID != "" && !uuidForm.MatchString(g.UUID) {
		return bad(field+".uuid", strconv.Quote(g.UUID)+" is not a UUID", "write letters, digits and hyphens, such as GPU-00000000-0000-4000-8000-000000000000")
	}
	if g.MIG == nil {
		return nil
	}
	if len(p.Profiles) == 0 {
		return bad(field+".mig", p.Name+" has no MIG", "remove mig; "+gpu.HaveMIG+" have it")
	}
	if _, err := gpu.Layout(p, *g.MIG); err != nil {
		return bad(field+".mig", err.Error(), "")
	}
	return nil
}

// reference is a place in the file that names a GPU.
type reference struct {
	field    string
	gpu, mig *int
	after    time.Duration
}

func (f File) references() []reference {
	var out []reference
	add := func(list string, i int, g, mig *int, after time.Duration) {
		out = append(out, reference{list + "[" + strconv.Itoa(i) + "]", g, mig, after})
	}
	for i, w := range f.Work {
		add("loads", i, &w.GPU, w.MIG, 0)
	}
	for i, x := range f.Xids {
		add("xid", i, &x.GPU, x.MIG, x.After)
	}
	for _, l := range []struct {
		name string
		list []Change
	}{{"lost", f.Lost}, {"removed", f.Removed}, {"reset", f.Reset}, {"thermal", f.Thermal}} {
		for i, c := range l.list {
			add(l.name, i, &c.GPU, nil, c.After)
		}
	}
	for i, r := range f.Remap {
		add("remap", i, &r.GPU, nil, r.After)
	}
	for i, n := range f.Needs {
		add("needs", i, &n.GPU, nil, n.After)
	}
	for i, t := range f.Hang {
		add("hang", i, t.GPU, nil, t.After)
	}
	for i, t := range f.Crash {
		add("crash", i, t.GPU, nil, t.After)
	}
	for i, n := range f.DeviceNodes {
		add("deviceNodes", i, n.GPU, n.MIG, 0)
	}
	return out
}

func bad(field, message, fix string) error {
	return &strictyaml.Error{Field: field, Message: message, Fix: fix}
}

// cudaVersion reads "12.8".
func cudaVersion(s string) (major, minor int, err error) {
	if s == "" {
		return 12, 8, nil
	}
	a, b, ok := strings.Cut(s, ".")
	major, err1 := strconv.Atoi(a)
	minor, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || major < 1 || major > mostMinor || minor < 0 || minor > mostMinor {
		return 0, 0, fmt.Errorf("%q is not a CUDA version", s)
	}
	return major, minor, nil
}
