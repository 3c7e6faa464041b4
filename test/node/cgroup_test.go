//go:build linux

package node_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroup is the group under which a test's kubelet has all pods: of version 2
// one folder, of version 1 one in each controller's hierarchy.
type cgroup struct {
	name string
	dirs []string
}

// groups counts those that this process has made.
var groups atomic.Int64

// newCgroup makes it, for a test of this process, and removes those of
// processes that are gone.
func newCgroup() (*cgroup, error) {
	cg := &cgroup{name: fmt.Sprintf("berth-node-%d-%d", os.Getpid(), groups.Add(1))}
	roots, v2, err := hierarchies()
	if err != nil {
		return nil, err
	}
	for _, root := range roots {
		sweep(root)
		dir := filepath.Join(root, cg.name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("make a cgroup: %w", err), cg.remove())
		}
		cg.dirs = append(cg.dirs, dir)
		if v2 {
			err = delegate(root, dir)
		} else if filepath.Base(root) == "cpuset" {
			err = errors.Join(inherit(root, dir, "cpuset.cpus"), inherit(root, dir, "cpuset.mems"))
		}
		if err != nil {
			return nil, errors.Join(err, cg.remove())
		}
	}
	return cg, nil
}

// hierarchies returns the folders to make groups in, and whether it is version 2.
func hierarchies() (roots []string, v2 bool, err error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, true, nil
	}
	for _, controller := range []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids"} {
		if _, err := os.Stat(filepath.Join(cgroupRoot, controller, "cgroup.procs")); err != nil {
			return nil, false, fmt.Errorf("no cgroup controller %s in %s", controller, cgroupRoot)
		}
	}
	seen := map[string]bool{} // cpu and cpuacct are often one folder with two names
	for _, controller := range []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "hugetlb", "perf_event", "net_cls", "net_prio", "rdma", "systemd", "unified"} {
		dir, err := filepath.EvalSymlinks(filepath.Join(cgroupRoot, controller))
		if err != nil || seen[dir] {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			continue
		}
		seen[dir] = true
		roots = append(roots, dir)
	}
	return roots, false, nil
}

// delegate turns the controllers that a kubelet asks for on for dir and for the
// groups in it.
func delegate(root, dir string) error {
	have, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for c := range strings.FieldsSeq(string(have)) {
		switch c {
		case "cpu", "cpuset", "memory", "pids", "hugetlb", "io":
		default:
			continue
		}
		for _, at := range []string{root, dir} {
			if err := os.WriteFile(filepath.Join(at, "cgroup.subtree_control"), []byte("+"+c), 0o644); err != nil {
				return fmt.Errorf("turn the cgroup controller %s on: %w", c, err)
			}
		}
	}
	return nil
}

// inherit copies a file of a group to one below it, which version 1 does not.
func inherit(root, dir, file string) error {
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, file), data, 0o644)
}

// remove takes the groups away. All processes in them have ended, but the
// kernel may need a moment more.
func (cg *cgroup) remove() error {
	var last error
	for _, dir := range cg.dirs {
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if last = removeGroups(dir); last == nil || time.Now().After(end) {
				break
			}
		}
		if last != nil {
			return fmt.Errorf("the cgroup is left behind: %w", last)
		}
	}
	return nil
}

// removeGroups removes a group and those in it, from the leaves up.
func removeGroups(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroups(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(dir)
}

// sweep removes groups of tests that were killed.
func sweep(root string) {
	found, _ := filepath.Glob(filepath.Join(root, "berth-node-*"))
	for _, dir := range found {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(dir), "berth-node-%d-", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = removeGroups(dir) // in use by what came after: not ours
		}
	}
}
