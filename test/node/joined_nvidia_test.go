//go:build linux

package node_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// besideNVIDIA is a joined node that NVIDIA's own device plugin serves.
type besideNVIDIA struct {
	joined
	version string
	held    []string // GPUs of pods that NVIDIA's plugin gave them, by UUID
}

// TestNVIDIAsPlugin runs NVIDIA's device plugin as its manifests do, as a DaemonSet,
// on a library that stands in for the driver's: it and Berth's agent leave the node
// to one another.
//
// rows: ML-12 AS-03
func TestNVIDIAsPlugin(t *testing.T) {
	for _, name := range []string{nvidiaPlugin, nvidiaLibrary} {
		if _, err := os.Stat(program(name)); err != nil {
			t.Skipf("left out: %v: tools/node.sh builds it where it can", err)
		}
	}
	if !isolated(t) {
		return
	}
	j := &besideNVIDIA{joined: join(t)}
	j.version = j.importNVIDIA(4)
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"its static manifest serves the node, and berth doctor tells its version", j.static},
		{"the agent stands back beside it, and tells who has which GPU", j.standsBack},
		{"when it goes the agent serves, and pods keep their GPUs", j.takesOver},
		{"its chart shares GPUs by time-slicing beside the agent", j.chart},
	} {
		if !t.Run(c.name, c.run) {
			return // the rest goes on from it
		}
	}
}

// static has NVIDIA's plugin alone: Berth's scheduler leaves the choice to it.
func (j *besideNVIDIA) static(t *testing.T) {
	j.manifest(t, "static.yaml", staticManifest)
	j.offersOnAPI(t, gpuResource, 4)
	j.says(t, fmt.Sprintf("device-plugin  DaemonSet kube-system/nvidia-device-plugin-daemonset %s (NVIDIA's static manifest), 1 of 1 ready", j.version), "berth", "doctor")
	j.uncommitted(t, "before", 1)
}

// standsBack starts an agent that serves, beside NVIDIA's plugin.
func (j *besideNVIDIA) standsBack(t *testing.T) {
	j.serve(t, wholeGPUs(4))
	j.isBeside(t)
	j.uncommitted(t, "beside", 2)
	for name, gpus := range map[string][]string{"before": j.held[:1], "beside": j.held[1:]} {
		j.attributed(t, name, gpus...)
		j.shows(t, name, len(gpus), "whole")
	}
}

// isBeside waits until the agent has stood back: it says so, offers nothing, and
// keeps Berth's scheduler from committing devices.
func (j *besideNVIDIA) isBeside(t *testing.T) {
	t.Helper()
	j.says(t, "another device plugin serves nvidia.com/gpu at /var/lib/kubelet/device-plugins/nvidia-gpu.sock. "+
		"Berth leaves the resource to it: run only one of the two on a node", "kubectl", "get", "events", "--field-selector", "reason=ForeignDevicePlugin")
	eventually(t, patience, "nothing of the node is the agent's", func() error {
		n, err := j.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		memory := n.Status.Allocatable["nvidia.com/gpu-memory"]
		left, err := filepath.Glob(filepath.Join(kubeletDir, "device-plugins", "berth-*"))
		if got := n.Labels["berth.dev/allocation"]; got != "kubelet" || n.Annotations["berth.dev/inventory"] != "" || !memory.IsZero() || err != nil || len(left) > 0 {
			return fmt.Errorf("its allocation is %q, its annotations %v, its shares %s, and the agent's sockets %v (%s)", got, n.Annotations, memory.String(), left, fmt.Sprint(err))
		}
		return nil
	})
}

// takesOver deletes the DaemonSet under pods that hold GPUs.
func (j *besideNVIDIA) takesOver(t *testing.T) {
	j.run(t, "kubectl", "delete", "-f", workDir+"/static.yaml")
	j.ready(t)
	r := j.comes(t, asking("mine", gpuResource, 1), true)
	gpus := j.committed(t, "mine")
	if err := only(r, gpus...); err != nil {
		t.Error(err)
	}
	for _, i := range gpus {
		if slices.Contains(j.held, uuid(i)) {
			t.Errorf("GPU %d is given to two pods", i)
		}
	}
	j.givesNothingTwice(t, uuid(gpus[0]))
	for _, name := range []string{"before", "beside"} {
		p, err := j.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || p.Status.Phase != v1.PodRunning || p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("%v; pod %s is %s", err, name, j.state(t, name))
		}
	}
}

// givesNothingTwice has pods come for which nobody commits devices, while pods of
// NVIDIA's plugin and one of Berth's scheduler, mine, have all GPUs.
func (j *besideNVIDIA) givesNothingTwice(t *testing.T, mine string) {
	t.Helper()
	p := asking("late", gpuResource, 1)
	p.Spec.SchedulerName, p.Spec.NodeName = "nobody", nodeName
	pods := j.client.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), p.DeepCopy(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the kubelet or the agent refuses the pod, or its container runs", func() error {
		now, err := pods.Get(t.Context(), p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		settled := now.Status.Phase == v1.PodFailed || now.Status.Phase == v1.PodRunning
		for _, c := range now.Status.ContainerStatuses {
			settled = settled || c.State.Waiting != nil && c.State.Waiting.Reason == "CreateContainerConfigError"
		}
		if !settled {
			return fmt.Errorf("it is %s", j.state(t, p.Name))
		}
		return nil
	})
	if now, err := pods.Get(t.Context(), p.Name, metav1.GetOptions{}); err != nil || now.Status.Phase == v1.PodRunning {
		t.Fatalf("%v; all GPUs are held, and another pod is %s", err, j.state(t, p.Name))
	}
	j.run(t, "kubectl", "delete", "pod", "mine", "--wait=false")
	r := j.comes(t, p, false)
	if got := visible(r); !slices.Equal(got, []string{mine}) {
		t.Errorf("pod %s has %v, want %s; pods of NVIDIA's plugin have %v", p.Name, got, mine, j.held)
	}
}

// chart goes back to NVIDIA's plugin as docs/tasks/switch-from-nvidias-plugin.md says, with every GPU shared by
// four, and starts the agent beside it.
func (j *besideNVIDIA) chart(t *testing.T) {
	j.clear(t)
	j.agent.stop(t, syscall.SIGTERM)
	j.run(t, "kubectl", "annotate", "node", nodeName, "berth.dev/inventory-", "berth.dev/observed-devices-", "berth.dev/plugin-config-")
	j.run(t, "kubectl", "label", "node", nodeName, "berth.dev/allocation-")
	j.manifest(t, "chart.yaml", chartManifest)
	j.offersOnAPI(t, gpuResource, 16)
	j.says(t, " 1/1 ", "kubectl", "get", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=nvidia-device-plugin")
	j.says(t, fmt.Sprintf("device-plugin  DaemonSet kube-system/nvdp-nvidia-device-plugin %s (NVIDIA's Helm chart), 1 of 1 ready", j.version), "berth", "doctor")
	j.uncommitted(t, "share-1", 1)
	j.runAgent(t)
	j.isBeside(t)
	j.uncommitted(t, "share-2", 1)
	for _, name := range []string{"share-1", "share-2"} {
		j.shows(t, name, 1, "1/4")
	}
	j.offersOnAPI(t, gpuResource, 16)
}

// shows waits until berth gpus has a pod in so many lines with that share of a GPU.
func (j *besideNVIDIA) shows(t *testing.T, name string, times int, share string) {
	t.Helper()
	eventually(t, patience, "berth gpus tells of pod "+name, func() error {
		out, err := j.output("berth", "gpus", "-A")
		got := 0
		for line := range strings.Lines(out) {
			if words := strings.Fields(line); slices.Contains(words, "default/"+name) && slices.Contains(words, share) {
				got++
			}
		}
		if got != times {
			return fmt.Errorf("%d lines with %s, want %d (%s):\n%s", got, share, times, fmt.Sprint(err), out)
		}
		return nil
	})
}

// uncommitted runs a pod that asks for GPUs, and notes which it got: Berth's
// scheduler places it, and NVIDIA's plugin chooses.
func (j *besideNVIDIA) uncommitted(t *testing.T, name string, count int) {
	t.Helper()
	r := j.comes(t, asking(name, gpuResource, int64(count)), false)
	if err := realUUIDs(r, count); err != nil {
		t.Fatalf("pod %s: %v", name, err)
	}
	j.held = append(j.held, visible(r)...)
}

// comes is make for a node that another plugin has just begun to serve. A pod is taken
// away and made anew, as its owner would, if the kubelet rejected it meanwhile, or if
// the scheduler had not heard yet whether it is to commit devices.
func (j *besideNVIDIA) comes(t *testing.T, p *v1.Pod, committed bool) report {
	t.Helper()
	pods := j.client.CoreV1().Pods("default")
	var r report
	eventually(t, patience, fmt.Sprintf("pod %s runs, with commitment: %t", p.Name, committed), func() error {
		if _, err := pods.Create(t.Context(), p.DeepCopy(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		now, err := pods.Get(t.Context(), p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		state := fmt.Errorf("it is %s", j.state(t, p.Name))
		switch {
		case now.Spec.NodeName == "" || now.DeletionTimestamp != nil:
			return state
		case now.Status.Phase == v1.PodFailed || (now.Annotations[devicesAnnotation] != "") != committed:
			return errors.Join(state, pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{}))
		}
		out, err := pods.GetLogs(p.Name, &v1.PodLogOptions{}).DoRaw(t.Context())
		if err == nil {
			err = json.Unmarshal(out, &r)
		}
		if err != nil {
			return errors.Join(err, state)
		}
		return nil
	})
	return r
}

// manifest writes a manifest with NVIDIA's image, and applies it.
func (j *besideNVIDIA) manifest(t *testing.T, name, text string) {
	t.Helper()
	j.write(name, fmt.Sprintf(text, nvidiaImage+j.version))
	j.plane.apply(t, filepath.Join(workDir, name))
}

// offersOnAPI waits until the Node has that many of a resource for pods.
func (j joined) offersOnAPI(t *testing.T, what v1.ResourceName, want int64) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("the node has %d of %s", want, what), func() error {
		n, err := j.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if got := n.Status.Allocatable[what]; err != nil || got.Value() != want {
			return errors.Join(err, &notYet{"it has " + got.String()})
		}
		return nil
	})
}

// says waits until a command of a user prints a text, whatever its exit status.
func (j joined) says(t *testing.T, text, name string, args ...string) {
	t.Helper()
	eventually(t, patience, name+" "+strings.Join(args, " ")+" says it", func() error {
		if out, err := j.output(name, args...); !strings.Contains(out, text) {
			return fmt.Errorf("want %q (%s):\n%s", text, fmt.Sprint(err), out)
		}
		return nil
	})
}

// output is what a command of a user prints, and how it ended.
func (j joined) output(name string, args ...string) (string, error) {
	cmd := exec.Command(program(name), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(planeDir, "kubeconfig"), "NO_COLOR=1", "HOME="+workDir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
