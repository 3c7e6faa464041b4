package real

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// host reads what the kernel says of GPUs beside NVML. Root is where its files
// lie: "" is "/".
type host struct{ root string }

// numaNode returns the NUMA node of the PCI device; -1 is none or unknown.
func (h host) numaNode(busID string) int {
	data, err := os.ReadFile(h.device(busID, "numa_node"))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// class returns base class and subclass, such as 0x0302; 0 is unknown.
func (h host) class(busID string) int {
	data, err := os.ReadFile(h.device(busID, "class"))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 0, 32)
	if err != nil {
		return 0
	}
	return int(n >> 8) // the last byte is the programming interface
}

// device names a file of the PCI device. NVML's addresses have a domain of
// eight digits and capitals, the kernel's have four and none.
func (h host) device(busID, file string) string {
	id := strings.ToLower(busID)
	if domain, rest, ok := strings.Cut(id, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		id = domain[4:] + ":" + rest
	}
	return filepath.Join("/", h.root, "sys/bus/pci/devices", id, file)
}

// migNodes returns the device nodes that open a GPU instance and a compute
// instance of the GPU with that minor number, in this order.
//
// Source: the driver lists lines such as "gpu0/gi1/ci0/access 22" in
// /proc/driver/nvidia-caps/mig-minors; 22 is the minor number of
// /dev/nvidia-caps/nvidia-cap22.
func (h host) migNodes(minor, gi, ci int) ([]string, error) {
	path := filepath.Join("/", h.root, "proc/driver/nvidia-caps/mig-minors")
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the device nodes of MIG devices: %w; the driver has the file once MIG is on", err)
	}
	defer f.Close()
	want := []string{fmt.Sprintf("gpu%d/gi%d/access", minor, gi), fmt.Sprintf("gpu%d/gi%d/ci%d/access", minor, gi, ci)}
	nodes := make([]string, len(want))
	found := 0
	for lines := bufio.NewScanner(f); lines.Scan() && found < len(want); {
		name, number, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		for i, w := range want {
			if n, err := strconv.Atoi(number); name == w && err == nil {
				nodes[i] = fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", n)
				found++
			}
		}
	}
	if found < len(want) {
		return nil, fmt.Errorf("%s has no lines %s", path, strings.Join(want, " and "))
	}
	return nodes, nil
}
