//go:build linux

package node_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// TestUncommittedPods is a node whose pods come from another scheduler, or from
// none: they get what NVIDIA's device plugin gives, in the form that its
// configuration file says. The file changes under the running agent.
func TestUncommittedPods(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newNode(t)
	n.startKubelet()
	makeNodes(t, 4)
	n.configure(t, "version: v1\n")
	n.startAgent(t, wholeGPUs(4), "--config-file", configFile)
	n.offers(t, gpuResource, 4)
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a container is told by the environment", n.environment},
		{"a container gets the device nodes, too, if asked", n.deviceSpecs},
		{"a container is told by mounts", n.volumeMounts},
		{"a container gets the driver's CDI edits", n.driverCDI},
		{"GPUs are shared by time-slicing", n.timeSlicing},
		{"shares have a name of their own", n.renamed},
		{"more than one share is refused where that is configured", n.greaterThanOne},
		{"MIG devices are resources of their own", n.migMixed},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer n.clear(t)
			c.run(t)
		})
	}
}

// configure writes the device plugin's configuration file.
func (n *node) configure(t *testing.T, text string) {
	t.Helper()
	if err := replaceFile(configFile, text); err != nil {
		t.Fatal(err)
	}
}

// serial numbers pods: a kubelet is never given the same one twice.
var serial atomic.Int64

// asNow starts pods, one after the other, until one is given its devices as want
// says: a change of the file that changes nothing in what is offered is seen in
// no other way.
func (n *node) asNow(t *testing.T, want func(report) error, what string, count int64) report {
	t.Helper()
	var r report
	eventually(t, patience, "the new configuration holds", func() error {
		name := fmt.Sprint("now-", serial.Add(1))
		n.apply(uncommitted(name, what, count))
		defer n.remove(t, name)
		r = n.sees(t, name, "c")
		return want(r)
	})
	return r
}

// visible is NVIDIA_VISIBLE_DEVICES, by comma, sorted.
func visible(r report) []string {
	got := strings.Split(r.Env["NVIDIA_VISIBLE_DEVICES"], ",")
	slices.Sort(got)
	return got
}

// realUUIDs says what is wrong with NVIDIA_VISIBLE_DEVICES of a container that
// has count GPUs.
func realUUIDs(r report, count int) error {
	got := visible(r)
	if len(slices.Compact(slices.Clone(got))) != count {
		return fmt.Errorf("NVIDIA_VISIBLE_DEVICES is %v, and %d GPUs were asked for", got, count)
	}
	for _, u := range got {
		if !strings.HasPrefix(u, "GPU-") {
			return fmt.Errorf("NVIDIA_VISIBLE_DEVICES is %v", got)
		}
	}
	return nil
}

func (n *node) environment(t *testing.T) {
	n.apply(uncommitted("env-1", gpuResource, 3), uncommitted("env-2", gpuResource, 1))
	first, second := n.sees(t, "env-1", "c"), n.sees(t, "env-2", "c")
	if err := realUUIDs(first, 3); err != nil {
		t.Error(err)
	}
	if err := realUUIDs(second, 1); err != nil {
		t.Error(err)
	}
	if slices.Contains(visible(first), visible(second)[0]) {
		t.Errorf("both containers have a GPU: %v, %v", visible(first), visible(second))
	}
	n.attributed(t, "env-1-"+nodeName, visible(first)...)
}

func (n *node) deviceSpecs(t *testing.T) {
	n.configure(t, "version: v1\nflags: {plugin: {passDeviceSpecs: true}}\n")
	r := n.asNow(t, func(r report) error {
		if _, ok := r.Nodes["/dev/nvidiactl"]; !ok {
			return fmt.Errorf("the container sees %v", r.Nodes)
		}
		return realUUIDs(r, 2)
	}, gpuResource, 2)
	count := 0
	for path := range r.Nodes {
		if strings.Trim(path, "0123456789") == "/dev/nvidia" {
			count++
		}
	}
	if count != 2 {
		t.Errorf("the container has nodes of %d GPUs: %v", count, r.Nodes)
	}
}

func (n *node) volumeMounts(t *testing.T) {
	n.configure(t, "version: v1\nflags: {plugin: {deviceListStrategy: volume-mounts}}\n")
	n.asNow(t, func(r report) error {
		if got := r.Env["NVIDIA_VISIBLE_DEVICES"]; got != "/var/run/nvidia-container-devices" {
			return fmt.Errorf("NVIDIA_VISIBLE_DEVICES is %q", got)
		}
		return nil
	}, gpuResource, 1)
}

func (n *node) driverCDI(t *testing.T) {
	n.configure(t, "version: v1\nflags: {plugin: {deviceListStrategy: cdi-cri}}\n")
	r := n.asNow(t, func(r report) error {
		if len(r.Nodes) == 0 {
			return fmt.Errorf("the container sees no node; its environment is %v", r.Env)
		}
		return nil
	}, gpuResource, 1)
	if got := r.Env["NVIDIA_VISIBLE_DEVICES"]; strings.HasPrefix(got, "GPU-") || got == "all" {
		t.Errorf("NVIDIA_VISIBLE_DEVICES is %q beside CDI", got)
	}
}

func (n *node) timeSlicing(t *testing.T) {
	n.configure(t, "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n")
	n.offers(t, gpuResource, 16)
	n.apply(uncommitted("slice-1", gpuResource, 1), uncommitted("slice-2", gpuResource, 1))
	on := map[string]string{"share-1": uuid(3), "share-2": uuid(3)} // the GPU of each pod
	for _, name := range []string{"slice-1", "slice-2"} {
		r := n.sees(t, name, "c")
		if err := realUUIDs(r, 1); err != nil {
			t.Errorf("pod %s: %v", name, err)
		}
		on[name] = visible(r)[0]
	}
	// A committed share is of the GPU that is named, whatever the kubelet picks.
	share := strings.ReplaceAll(commit("c", uuid(3)), "1000", "250") // time-slicing divides no memory
	n.apply(pod("share-1", share, 1), pod("share-2", share, 1))
	for _, name := range []string{"share-1", "share-2"} {
		if err := only(n.sees(t, name, "c"), 3); err != nil {
			t.Errorf("pod %s: %v", name, err)
		}
	}
	n.sharersShown(t, on)
}

// sharersShown waits until the metrics have a series of each sharer of a GPU, and
// what is of the GPU alone no more than once.
//
// NVIDIA/dcgm-exporter#151 NVIDIA/dcgm-exporter#201
func (n *node) sharersShown(t *testing.T, on map[string]string) {
	t.Helper()
	const divided, whole = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"
	eventually(t, patience, "every sharer has its series", func() error {
		families, text := scrape(t)
		for pod, u := range on {
			labels := []string{"pod", pod + "-" + nodeName, "namespace", "default", "container", "c"}
			_, all := sum(families, divided, labels...)
			if _, series := sum(families, divided, append(labels, "UUID", u)...); series != 1 || all != 1 {
				return fmt.Errorf("pod %s has a share of %s, and the metrics say\n%s", pod, u, lines(text, divided))
			}
		}
		if _, series := sum(families, whole); series != 4 {
			return fmt.Errorf("there are four GPUs, and the metrics say\n%s", lines(text, whole))
		}
		return nil
	})
}

func (n *node) renamed(t *testing.T) {
	n.configure(t, "version: v1\nsharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n")
	n.offers(t, gpuResource+".shared", 8)
	n.offers(t, gpuResource, 0)
	n.apply(uncommitted("renamed", gpuResource+".shared", 1))
	if err := realUUIDs(n.sees(t, "renamed", "c"), 1); err != nil {
		t.Error(err)
	}
}

func (n *node) greaterThanOne(t *testing.T) {
	n.configure(t, "version: v1\nsharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n")
	n.offers(t, gpuResource, 16)
	n.apply(uncommitted("two", gpuResource, 2))
	n.waits(t, "two", "maximum request size for shared resources is 1; found 2")
}

// migMixed changes the GPUs under the agent: two of four are cut now.
//
// NVIDIA/k8s-device-plugin#389 NVIDIA/k8s-device-plugin#426
func (n *node) migMixed(t *testing.T) {
	n.configure(t, "version: v1\nflags: {migStrategy: mixed}\n")
	n.offers(t, gpuResource, 4)
	n.setGPUs(t, cutGPUs())
	n.offers(t, gpuResource, 2)
	n.offers(t, "nvidia.com/mig-1g.5gb", 7)
	n.offers(t, "nvidia.com/mig-3g.20gb", 2)
	p := uncommitted("mig", "nvidia.com/mig-3g.20gb", 1)
	p.Spec.Containers = append(p.Spec.Containers, container("small", "nvidia.com/mig-1g.5gb", 2))
	n.apply(p)
	for name, count := range map[string]int{"c": 1, "small": 2} {
		r := n.sees(t, "mig", name)
		got := strings.Split(r.Env["BERTH_DEVICES"], ",")
		if len(got) != count || !strings.HasPrefix(got[0], "MIG-") {
			t.Errorf("container %s has %v, and %d MIG devices were asked for", name, got, count)
		}
	}
	n.migShown(t)
	n.remove(t, "mig")
	n.setGPUs(t, wholeGPUs(4))
	n.offers(t, gpuResource, 4)
	n.offers(t, "nvidia.com/mig-1g.5gb", 0)
}

// migShown waits until the metrics have a series of each MIG device, under the GPU that
// is cut, with the container that holds it.
//
// NVIDIA/dcgm-exporter#105 NVIDIA/dcgm-exporter#397
func (n *node) migShown(t *testing.T) {
	t.Helper()
	const name = "DCGM_FI_DEV_FB_USED"
	eventually(t, patience, "every MIG device has its series", func() error {
		families, text := scrape(t)
		for _, want := range []struct {
			series int
			labels []string
		}{
			{1, []string{"UUID", uuid(3), "GPU_I_PROFILE", "3g.20gb", "pod", "mig-" + nodeName, "container", "c"}},
			{2, []string{"UUID", uuid(2), "GPU_I_PROFILE", "1g.5gb", "pod", "mig-" + nodeName, "container", "small"}},
			{3, []string{"pod", "mig-" + nodeName}},
			{7, []string{"UUID", uuid(2), "GPU_I_PROFILE", "1g.5gb"}},
			{2, []string{"UUID", uuid(3)}}, // and none of the GPU beside its parts
		} {
			if _, series := sum(families, name, want.labels...); series != want.series {
				return fmt.Errorf("there are %d series of %v, want %d:\n%s", series, want.labels, want.series, lines(text, name))
			}
		}
		return nil
	})
}

// TestKubeletAllocation is a node whose container runtime has no CDI: there the
// kubelet's choice stands, in the form of NVIDIA's plugin.
func TestKubeletAllocation(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newNode(t)
	n.startKubelet()
	makeNodes(t, 4)
	n.configure(t, "version: v1\nflags: {plugin: {passDeviceSpecs: true}}\n")
	n.startAgent(t, wholeGPUs(4), "--allocation", "kubelet", "--config-file", configFile)
	n.offers(t, gpuResource, 4)
	n.apply(uncommitted("one", gpuResource, 1), uncommitted("two", gpuResource, 2))
	seen := map[string]string{}
	for name, count := range map[string]int{"one": 1, "two": 2} {
		r := n.sees(t, name, "c")
		if err := realUUIDs(r, count); err != nil {
			t.Errorf("pod %s: %v", name, err)
		}
		indexes := []int{}
		for _, u := range visible(r) {
			if other, ok := seen[u]; ok {
				t.Errorf("pods %s and %s have %s", name, other, u)
			}
			seen[u] = name
			for i := range 4 {
				if uuid(i) == u {
					indexes = append(indexes, i)
				}
			}
		}
		if err := only(r, indexes...); err != nil {
			t.Errorf("pod %s has %v: %v", name, visible(r), err)
		}
		ids, err := picks(name)
		if err != nil || !slices.Equal(ids, visible(r)) {
			t.Errorf("pod-resources tells of %v, %v, and the container has %v", ids, err, visible(r))
		}
	}
}
