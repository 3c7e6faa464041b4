package shell

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// entry is one name in a folder of the container.
type entry struct {
	name         string
	dir          bool
	major, minor int // of a character device; 0, 0 is none
}

// Device numbers: NVIDIA's own major number, which the kernel assigns to it,
// and two from the dynamic range, where a real driver gets uvm and caps.
const (
	majorNVIDIA = 195
	majorUVM    = 508
	majorCaps   = 511
	minorCtl    = 255
)

// folders lists the folders of the container with what is in each.
func (m Machine) folders() map[string][]entry {
	dev := []entry{{name: "null", major: 1, minor: 3}, {name: "zero", major: 1, minor: 5}, {name: "urandom", major: 1, minor: 9}}
	all := map[string][]entry{
		"/":     nil,
		"/etc":  {{name: "hostname"}},
		"/proc": nil,
		"/root": nil,
		"/tmp":  nil,
	}
	if len(m.GPUs) > 0 {
		for _, minor := range m.GPUs {
			dev = append(dev, entry{name: fmt.Sprintf("nvidia%d", minor), major: majorNVIDIA, minor: minor})
		}
		dev = append(dev,
			entry{name: "nvidiactl", major: majorNVIDIA, minor: minorCtl},
			entry{name: "nvidia-uvm", major: majorUVM},
			entry{name: "nvidia-uvm-tools", major: majorUVM, minor: 1})
		all["/proc/driver/nvidia"] = []entry{{name: "version"}}
	}
	for _, minor := range m.Caps {
		all["/dev/nvidia-caps"] = append(all["/dev/nvidia-caps"], entry{name: fmt.Sprintf("nvidia-cap%d", minor), major: majorCaps, minor: minor})
	}
	all["/dev"] = dev
	dirs := []string{path.Clean("/" + m.WorkingDir)}
	for dir := range all {
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		for dir != "/" {
			up, name := path.Dir(dir), path.Base(dir)
			if !slices.ContainsFunc(all[up], func(e entry) bool { return e.name == name }) {
				all[up] = append(all[up], entry{name: name, dir: true})
			}
			if _, ok := all[dir]; !ok {
				all[dir] = nil
			}
			dir = up
		}
	}
	return all
}

// entries returns what is in a folder, sorted by name; nil if it is none.
func (m Machine) entries(dir string) []entry {
	es := m.folders()[dir]
	slices.SortFunc(es, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return es
}

func (m Machine) isDir(p string) bool {
	_, ok := m.folders()[p]
	return ok
}

// stat returns the entry at a path.
func (m Machine) stat(p string) (entry, bool) {
	if m.isDir(p) {
		return entry{name: path.Base(p), dir: true}, true
	}
	for _, e := range m.entries(path.Dir(p)) {
		if e.name == path.Base(p) {
			return e, true
		}
	}
	return entry{}, false
}

// file returns the text of a file.
func (m Machine) file(p string) (string, bool) {
	e, ok := m.stat(p)
	switch {
	case !ok || e.dir:
		return "", false
	case p == "/etc/hostname":
		return m.Hostname + "\n", true
	case p == "/proc/driver/nvidia/version" && m.View != nil:
		return fmt.Sprintf("NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  (simulated by Berth)\n", m.View().Driver), true
	}
	return "", p == "/dev/null"
}

// abs makes a path absolute and clean.
func (sh *interp) abs(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = sh.dir + "/" + p
	}
	return path.Clean(p)
}

// lsCommand lists files and folders, with -l in the long form. A pattern of
// names is matched here too, because kubectl exec passes it on unexpanded.
func lsCommand(p *process) int {
	set, names, err := flags(p.args, "l1adhtrFR", "")
	if err != nil {
		return p.fail(2, "%v", err)
	}
	var operands []string
	for _, name := range names {
		operands = append(operands, p.sh.glob(name)...)
	}
	if len(operands) == 0 {
		operands = []string{"."}
	}
	code := 0
	var files []entry
	var dirs []string
	for _, name := range operands {
		e, ok := p.sh.m.stat(p.sh.abs(name))
		switch {
		case !ok:
			code = p.fail(2, "cannot access '%s': No such file or directory", name)
		case e.dir && set['d'] == 0:
			dirs = append(dirs, name)
		default:
			e.name = name
			files = append(files, e)
		}
	}
	p.list(files, set['l'] == 1)
	for i, dir := range dirs {
		if len(operands) > 1 {
			if i > 0 || len(files) > 0 {
				p.line("")
			}
			p.line(dir + ":")
		}
		p.list(p.sh.m.entries(p.sh.abs(dir)), set['l'] == 1)
	}
	return code
}

// list prints entries, one to a line.
func (p *process) list(es []entry, long bool) {
	for _, e := range es {
		if !long {
			p.line(e.name)
			continue
		}
		mode, size := "-r--r--r-- 1", "     0"
		switch {
		case e.dir:
			mode, size = "drwxr-xr-x 2", "  4096"
		case e.major > 0:
			mode, size = "crw-rw-rw- 1", fmt.Sprintf("%3d, %3d", e.major, e.minor)
		}
		fmt.Fprintf(p.stdout, "%s root root %8s %s %s\n", mode, size, p.sh.m.Now().UTC().Format(time.Stamp[:len("Jan _2 15:04")]), e.name)
	}
}
