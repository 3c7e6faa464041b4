package allocation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// unifiedCgroup returns the cgroup of a pod, or why it has none that is cgroup v2.
func (n *Node) unifiedCgroup(uid string) (string, error) {
	if _, err := os.Stat(filepath.Join(n.o.CgroupRoot, "cgroup.controllers")); err != nil {
		return "", errors.New("the node has no cgroup v2")
	}
	path := n.cgroup(uid)
	if path == "" {
		return "", fmt.Errorf("no cgroup of pod %s below %s", uid, n.o.CgroupRoot)
	}
	return path, nil
}

// cgroup returns the cgroup of a pod, "" if there is none. It looks for the names of
// both of the kubelet's cgroup drivers, in each QoS class: below the root, or up to
// two directories deeper, for a controller of cgroup v1 and the kubelet's --cgroup-root.
func (n *Node) cgroup(uid string) string {
	under := strings.ReplaceAll(uid, "-", "_")
	for _, path := range []string{
		"kubepods/pod" + uid, "kubepods/burstable/pod" + uid, "kubepods/besteffort/pod" + uid,
		"kubepods.slice/kubepods-pod" + under + ".slice",
		"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice",
		"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + under + ".slice",
	} {
		for _, prefix := range []string{"", "*", "*/*"} {
			found, err := filepath.Glob(filepath.Join(n.o.CgroupRoot, prefix, path))
			if err == nil && len(found) > 0 {
				return found[0]
			}
		}
	}
	return ""
}

// runs reports whether processes of a pod still run. A pod that was deleted by force
// is gone from the API server before its containers have ended; for other pods, the
// kubelet has removed the cgroup by then.
func (n *Node) runs(uid string) bool {
	path := n.cgroup(uid)
	if path == "" {
		return false
	}
	events, err := os.ReadFile(filepath.Join(path, "cgroup.events"))
	if err == nil {
		return strings.Contains(string(events), "populated 1")
	}
	lists, err := filepath.Glob(filepath.Join(path, "*", "cgroup.procs")) // cgroup v1: of the containers
	if err != nil {
		return false
	}
	for _, list := range lists {
		if pids, err := os.ReadFile(list); err == nil && len(pids) > 0 {
			return true
		}
	}
	return false
}
