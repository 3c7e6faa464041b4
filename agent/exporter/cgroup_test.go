package exporter_test

import (
	"os"
	"strings"
	"testing"

	"berth.dev/berth/agent/exporter"
)

func TestParseCgroup(t *testing.T) {
	const (
		id     = "3f1c0b9e8d7a6b5c4d3e2f1a0b9c8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f3a2b1c"
		pod    = "0a9c2f6e-7b1d-4e0a-9d3c-5f6e7a8b9c0d"
		under  = "0a9c2f6e_7b1d_4e0a_9d3c_5f6e7a8b9c0d"
		static = "4f2a1c9d8e7b6a5f4e3d2c1b0a9f8e7d"
	)
	for _, c := range []struct{ name, text, pod, id string }{
		{"cgroup v2, systemd, containerd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", pod, id},
		{"cgroup v2, systemd, guaranteed", "0::/kubepods.slice/kubepods-pod" + under + ".slice/crio-" + id + ".scope/container\n", pod, id},
		{"cgroup v2, cgroupfs", "0::/kubepods/besteffort/pod" + pod + "/" + id + "\n", pod, id},
		{"cgroup v1, cgroupfs", "12:pids:/\n11:memory:/kubepods/burstable/pod" + pod + "/" + id + "\n1:name=systemd:/kubepods/burstable/pod" + pod + "/" + id + "\n", pod, id},
		{"cgroup v1, systemd by containerd", "5:cpu,cpuacct:/system.slice/containerd.service/kubepods-burstable-pod" + under + ".slice:cri-containerd:" + id + "\n", pod, id},
		{"under a root of the kubelet's", "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", pod, id},
		{"from within a cgroup namespace", "0::/../../kubepods-besteffort-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", pod, id},
		{"a static pod", "0::/kubepods/burstable/pod" + static + "/" + id + "\n", static, id},
		{"a static pod by systemd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + static + ".slice/cri-containerd-" + id + ".scope\n", static, id},
		{"docker", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice/docker-" + id + ".scope\n", pod, id},
		{"a pod's own cgroup", "0::/kubepods/pod" + pod + "\n", pod, ""},
		{"a process of the host's", "0::/system.slice/podman-" + id + ".scope\n", "", ""},
		{"a name that has pod in it", "0::/user.slice/mypod" + pod + "\n", "", ""},
		{"nothing", "", "", ""},
		{"no path", "0::\nnonsense\n", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := exporter.ParseCgroup(c.text)
			if got.PodUID != c.pod || got.ContainerID != c.id || ok != (c.pod != "") {
				t.Errorf("ParseCgroup(%q) = %+v, %v", c.text, got, ok)
			}
		})
	}
}

func FuzzParseCgroup(f *testing.F) {
	f.Add("0::/kubepods/pod0a9c2f6e-7b1d-4e0a-9d3c-5f6e7a8b9c0d/x")
	f.Fuzz(func(t *testing.T, text string) {
		o, ok := exporter.ParseCgroup(text)
		if ok != (o.PodUID != "") || strings.Contains(o.PodUID, "_") || len(o.ContainerID) != 0 && len(o.ContainerID) != 64 {
			t.Errorf("ParseCgroup(%q) = %+v, %v", text, o, ok)
		}
	})
}

func TestAProcessThatIsNotThereHasNoOwner(t *testing.T) {
	if _, ok := exporter.ProcessOwner(t.TempDir(), 7); ok {
		t.Error("ProcessOwner finds one")
	}
	if _, err := os.Stat("/proc/self/cgroup"); err == nil {
		if _, ok := exporter.ProcessOwner("/proc", os.Getpid()); !ok {
			t.Error("ProcessOwner does not find this process")
		}
	}
}
