package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/fleet/spec"
)

// allocatable returns a resource of a node.
func (w *world) allocatable(node, name string) int64 {
	w.t.Helper()
	q := w.node(node).Status.Allocatable[v1.ResourceName(name)]
	return q.Value()
}

func (w *world) wantAllocatable(node, name string, want int64) {
	w.t.Helper()
	if got := w.allocatable(node, name); got != want {
		w.t.Errorf("allocatable %s of %s is %d, want %d", name, node, got, want)
	}
}

func ready(n *v1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

func TestAnXidMakesAGPUUnhealthyUntilItIsHealed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(named(bare("x", "serve"), "p", 2), "n1")
		w.after(2 * time.Second)
		w.annotate("n1", "berth.dev/faults", `["xid-79/0"]`)
		w.after(time.Second)
		w.wantAllocatable("n1", "nvidia.com/gpu", 1)
		w.wantAllocatable("n1", "nvidia.com/gpu-memory", 40)
		var health []string
		for _, d := range w.pod("p").Status.ContainerStatuses[0].AllocatedResourcesStatus[0].Resources {
			health = append(health, string(d.Health))
		}
		if !slices.Equal(health, []string{"Unhealthy", "Healthy"}) {
			t.Errorf("health of the holder's devices is %v", health)
		}
		if e := w.events(); !strings.Contains(e, "n1 GPUXid: GPU 0") || !strings.Contains(e, "Xid 79") {
			t.Errorf("no event names the Xid:\n%s", e)
		}
		if got := w.node("n1").Annotations["berth.dev/inventory"]; !strings.Contains(got, `"healthy":false,"xid":79`) {
			t.Errorf("the inventory does not say it: %s", got)
		}
		w.annotate("n1", "berth.dev/faults", `[]`)
		w.after(time.Second)
		w.wantAllocatable("n1", "nvidia.com/gpu", 2)
		w.want("p", "Running c:ready")
		w.annotate("n1", "berth.dev/faults", `["xid-13/1"]`) // an application's error
		w.after(time.Second)
		w.wantAllocatable("n1", "nvidia.com/gpu", 2)
	}, a100("n1", 2))
}

func TestABrokenKubeletDoesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(named(policy(bare("x", "sleep", "30"), v1.RestartPolicyNever), "p", 1), "n1")
		w.after(2 * time.Second)
		w.annotate("n1", "berth.dev/faults", `["kubelet"]`)
		w.after(time.Second)
		if got := ready(w.node("n1")); got != "Unknown NodeStatusUnknown" {
			t.Errorf("Ready is %q", got)
		}
		lease, err := w.client.CoordinationV1().Leases("kube-node-lease").Get(w.t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.after(5 * time.Minute)
		w.want("p", "Running c:ready") // nobody tells that it has ended
		again, _ := w.client.CoordinationV1().Leases("kube-node-lease").Get(w.t.Context(), "n1", metav1.GetOptions{})
		if !again.Spec.RenewTime.Equal(lease.Spec.RenewTime) {
			t.Error("a broken kubelet renews its lease")
		}
		w.annotate("n1", "berth.dev/faults", `[]`)
		w.after(time.Second)
		w.want("p", "Succeeded c:Completed(0)")
		if got := ready(w.node("n1")); got != "True KubeletReady" {
			t.Errorf("after the heal Ready is %q", got)
		}
		w.after(2 * time.Minute)
		if again, _ = w.client.CoordinationV1().Leases("kube-node-lease").Get(w.t.Context(), "n1", metav1.GetOptions{}); again.Spec.RenewTime.Equal(lease.Spec.RenewTime) {
			t.Error("the lease is not renewed after the heal")
		}
	}, a100("n1", 1))
}

func TestAnImageFaultGoesThroughTheKubeletsStates(t *testing.T) {
	inWorld(t, func(w *world) {
		w.annotate("n1", "berth.dev/faults", `["image"]`)
		w.bind(named(bare("repo/app:v1", "serve"), "p", 1), "n1")
		w.after(time.Second)
		w.want("p", "Pending c:ErrImagePull")
		w.after(3 * time.Second)
		w.want("p", "Pending c:ImagePullBackOff")
		if got := w.pod("p").Status.ContainerStatuses[0].State.Waiting.Message; !strings.HasPrefix(got, `Back-off pulling image "repo/app:v1": ErrImagePull: `) {
			t.Errorf("message is %q", got)
		}
		if len(ids(w.pod("p"))) != 1 {
			t.Error("a pod that cannot pull its image does not hold its GPU")
		}
		w.annotate("n1", "berth.dev/faults", ``)
		w.after(2 * time.Second)
		w.want("p", "Running c:ready")
	}, a100("n1", 1))
}

func TestABrokenDriverTakesAllGPUs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.annotate("n1", "berth.dev/faults", `["driver"]`)
		w.after(time.Second)
		w.wantAllocatable("n1", "nvidia.com/gpu", 0)
		if v := w.fleet.View("n1", nil); len(v.Devices) != 0 || !v.DriverLost {
			t.Errorf("nvidia-smi sees %d GPUs", len(v.Devices))
		}
		w.bind(named(bare("x", "serve"), "p", 1), "n1")
		w.after(time.Second)
		if got := w.pod("p").Status.Message; !strings.Contains(got, "no healthy devices present") {
			t.Errorf("message is %q", got)
		}
	}, a100("n1", 2))
}

// pluginPod is a pod of the device plugin's DaemonSet.
func pluginPod(name string) *v1.Pod {
	p := owned(bare("nvcr.io/nvidia/k8s-device-plugin:v0.17.1"), "DaemonSet")
	p.Namespace, p.Name = "gpu-operator", name
	p.OwnerReferences[0].Name = "nvidia-device-plugin-daemonset"
	return p
}

// configMap creates or replaces the plugin's configuration.
func (w *world) configMap(namespace, name, text string) {
	w.t.Helper()
	m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"config.yaml": text}}
	client := w.client.CoreV1().ConfigMaps(namespace)
	_ = client.Delete(w.t.Context(), name, metav1.DeleteOptions{})
	if _, err := client.Create(w.t.Context(), m, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// restartPlugin replaces the plugin's pod, as a rollout restart does.
func (w *world) restartPlugin(old, name string) {
	w.t.Helper()
	if old != "" {
		if err := w.client.CoreV1().Pods("gpu-operator").Delete(w.t.Context(), old, metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.bind(pluginPod(name), "n1")
	w.after(2 * time.Second)
}

const byFour = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"

// rows: AS-06
func TestTimeSlicingTakesEffectWhenThePluginStarts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.spec.System = true
		w.restartPlugin("", "plugin-1")
		w.bind(named(bare("x", "serve"), "before", 1), "n1")
		part := named(bare("x", "serve"), "part", 0)
		part.Spec.Containers[0].Resources.Requests = v1.ResourceList{"nvidia.com/gpu-memory": resource.MustParse("6")}
		w.bind(part, "n1")
		w.after(time.Second)
		whole := ids(w.pod("before"))[0]
		w.configMap("gpu-operator", "other-name", byFour)
		w.configMap("default", "device-plugin-config", byFour)
		w.restartPlugin("plugin-1", "plugin-2")
		w.wantAllocatable("n1", "nvidia.com/gpu", 8)
		w.configMap("gpu-operator", "device-plugin-config", byFour)
		w.after(time.Minute)
		w.wantAllocatable("n1", "nvidia.com/gpu", 8) // nothing restarted yet
		w.restartPlugin("plugin-2", "plugin-3")
		w.wantAllocatable("n1", "nvidia.com/gpu", 32)
		w.wantAllocatable("n1", "nvidia.com/gpu-memory", 0)
		labels := w.node("n1").Labels
		for key, want := range map[string]string{"nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-SHARED"} {
			if labels[key] != want {
				t.Errorf("label %s is %q, want %q", key, labels[key], want)
			}
		}
		if got := ids(w.pod("before"))[0]; got != whole+"::0" {
			t.Errorf("who held GPU %s before holds %s, want a share of it", whole, got)
		}
		for _, name := range []string{"a", "b"} {
			w.bind(named(bare("x", "serve"), name, 1), "n1")
			w.after(time.Second)
			w.want(name, "Running c:ready")
		}
		w.kill()
		w.start()
		w.wantAllocatable("n1", "nvidia.com/gpu", 32) // a restart of Berth changes nothing
		w.annotate("n1", "berth.dev/faults", `["xid-79"]`)
		w.after(time.Second)
		moved := w.pod("part").Status.ContainerStatuses[0].AllocatedResourcesStatus[0]
		if moved.Name != "nvidia.com/gpu-memory" || !strings.HasSuffix(string(moved.Resources[0].ResourceID), "::0") || moved.Resources[0].Health != v1.ResourceHealthStatusUnhealthy {
			t.Errorf("who held a share by memory before holds %+v, want an unhealthy share under the name it asked for", moved)
		}
		w.annotate("n1", "berth.dev/faults", `[]`)
		w.after(time.Second)
		w.configMap("gpu-operator", "device-plugin-config", "version: v1\nsharing:\n  timeSlicing:\n    replicas: 4\n")
		w.restartPlugin("plugin-3", "plugin-4")
		w.wantAllocatable("n1", "nvidia.com/gpu", 0)
		if e := w.events(); !strings.Contains(e, "plugin-4 InvalidPluginConfig") || !strings.Contains(e, "n1 InvalidPluginConfig") {
			t.Errorf("no event reports the refusal:\n%s", e)
		}
		w.after(5 * time.Second)
		p, err := w.client.CoreV1().Pods("gpu-operator").Get(t.Context(), "plugin-4", metav1.GetOptions{})
		if err != nil || !strings.Contains(line(p), "CrashLoop") {
			t.Errorf("the plugin's pod is %v, %v, want a crash loop", p, err)
		}
		w.want("part", "Running c:ready") // what runs keeps its devices
		w.kill()
		w.start()
		w.after(10 * time.Minute)
		w.wantAllocatable("n1", "nvidia.com/gpu", 0)
		w.configMap("gpu-operator", "device-plugin-config", byFour)
		w.after(6 * time.Minute) // it is tried again, at the latest after the longest back-off
		w.wantAllocatable("n1", "nvidia.com/gpu", 32)
	}, a100("n1", 8))
}

// When the ConfigMap is gone, its shares go as the plugin starts again: the node offers
// whole GPUs, or the shares that its fleet file has.
func TestSharesGoWithTheirConfigMap(t *testing.T) {
	byTwo := a100("n1", 8)
	byTwo.Sharing = gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{"nvidia.com/gpu": 2}}
	for _, tt := range []struct {
		name string
		node spec.Node
		want int64
	}{{"whole GPUs again", a100("n1", 8), 8}, {"the shares of the fleet file again", byTwo, 16}} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.spec.System = true
				w.restartPlugin("", "plugin-1")
				w.configMap("gpu-operator", "device-plugin-config", byFour)
				w.restartPlugin("plugin-1", "plugin-2")
				w.wantAllocatable("n1", "nvidia.com/gpu", 32)
				other := pluginPod("other")
				other.Namespace = "kube-system" // which has no ConfigMap
				w.bind(other, "n1")
				w.after(time.Minute)
				w.wantAllocatable("n1", "nvidia.com/gpu", 32)
				w.restartPlugin("plugin-2", "plugin-3")
				if err := w.client.CoreV1().ConfigMaps("gpu-operator").Delete(w.t.Context(), "device-plugin-config", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				w.after(time.Minute)
				w.wantAllocatable("n1", "nvidia.com/gpu", 32) // nothing restarted yet
				w.kill()
				w.start()
				w.restartPlugin("plugin-3", "plugin-4")
				w.wantAllocatable("n1", "nvidia.com/gpu", tt.want)
				w.restartPlugin("plugin-4", "plugin-5")
				w.wantAllocatable("n1", "nvidia.com/gpu", tt.want)
			}, tt.node)
		})
	}
}

func TestTheNodesLabelChoosesTheConfiguration(t *testing.T) {
	inWorld(t, func(w *world) {
		m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu-operator", Name: "device-plugin-config"}, Data: map[string]string{
			"config.yaml": "version: v1", "shared": byFour,
		}}
		if _, err := w.client.CoreV1().ConfigMaps("gpu-operator").Create(w.t.Context(), m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.restartPlugin("", "plugin-1")
		w.wantAllocatable("n1", "nvidia.com/gpu", 2)
		n := w.node("n1").DeepCopy()
		n.Labels["nvidia.com/device-plugin.config"] = "shared"
		if _, err := w.client.CoreV1().Nodes().Update(w.t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.after(2 * time.Second)
		w.wantAllocatable("n1", "nvidia.com/gpu", 8)
	}, a100("n1", 2))
}

func TestWithoutAPluginNothingIsAllocatable(t *testing.T) {
	n := a100("n1", 2)
	inWorld(t, func(w *world) {
		w.kill()
		w.spec.System = true
		w.start()
		w.restartPlugin("", "plugin-1")
		w.annotate("n1", "berth.dev/faults", `["device-plugin"]`)
		w.after(time.Second)
		w.wantAllocatable("n1", "nvidia.com/gpu", 0)
		p, _ := w.client.CoreV1().Pods("gpu-operator").Get(w.t.Context(), "plugin-1", metav1.GetOptions{})
		if got := line(p); !strings.Contains(got, "x1") && !strings.Contains(got, "CrashLoop") {
			t.Errorf("the plugin's pod is %q, want a crash loop", got)
		}
		w.annotate("n1", "berth.dev/faults", ``)
		w.after(3 * time.Second)
		w.wantAllocatable("n1", "nvidia.com/gpu", 2)
		if err := w.client.CoreV1().Pods("gpu-operator").Delete(w.t.Context(), "plugin-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.after(5 * time.Second)
		w.wantAllocatable("n1", "nvidia.com/gpu", 2) // a rollout takes that long
		w.after(10 * time.Second)
		w.wantAllocatable("n1", "nvidia.com/gpu", 0)
		if got := w.node("n1").Status.Capacity["nvidia.com/gpu"]; got.Value() != 2 {
			t.Errorf("capacity is %s, want 2", got.String())
		}
	}, n)
}

func TestSharesByMemoryFillOneGPU(t *testing.T) {
	inWorld(t, func(w *world) {
		ask := func(name string, gib int64) *v1.Pod {
			p := named(bare("x", "serve"), name, 0)
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{
				"nvidia.com/gpu-memory": *resource.NewQuantity(gib, resource.DecimalSI), "nvidia.com/gpu": *resource.NewQuantity(1, resource.DecimalSI),
			}
			return p
		}
		w.bind(ask("a", 16), "n1")
		w.bind(ask("b", 16), "n1")
		w.bind(ask("c", 16), "n1")
		w.after(time.Second)
		a, b, c := ids(w.pod("a")), ids(w.pod("b")), ids(w.pod("c"))
		uuid := func(list []string) string { id, _, _ := strings.Cut(list[0], "::"); return id }
		if len(a) != 1 || uuid(a) != uuid(b) || a[0] == b[0] || uuid(b) == uuid(c) {
			t.Errorf("16 + 16 GiB share a GPU of 40 and a third does not: %v %v %v", a, b, c)
		}
		w.kill()
		w.start()
		w.bind(named(bare("x", "serve"), "whole", 1), "n1")
		w.after(time.Second)
		w.want("whole", "Failed UnexpectedAdmissionError")
	}, a100("n1", 2))
}

func TestASimulatedVolumeIsMadeAndDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		class := "standard"
		pvc := &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "u1", Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": "berth.dev/simulated"}},
			Spec: v1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
				Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi")}},
			},
		}
		w.storageClass(class)
		if _, err := w.client.CoreV1().PersistentVolumeClaims("default").Create(w.t.Context(), pvc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.after(time.Second)
		pv, err := w.client.CoreV1().PersistentVolumes().Get(w.t.Context(), "pvc-u1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if pv.Spec.ClaimRef.Name != "data" || pv.Spec.AccessModes[0] != v1.ReadWriteMany || pv.Spec.Capacity.Storage().String() != "10Gi" || pv.Spec.HostPath.Path != "/var/lib/berth-sim/pvc-u1" {
			t.Errorf("volume is %+v", pv.Spec)
		}
		pv.Status.Phase = v1.VolumeReleased
		if _, err := w.client.CoreV1().PersistentVolumes().UpdateStatus(w.t.Context(), pv, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.after(time.Second)
		if _, err := w.client.CoreV1().PersistentVolumes().Get(w.t.Context(), "pvc-u1", metav1.GetOptions{}); err == nil {
			t.Error("a released volume with policy Delete is still there")
		}
	}, a100("n1", 1))
}

func TestANodeOfSomebodyElseIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		if _, err := w.client.CoreV1().Nodes().Create(w.t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.kill()
		w.spec.Nodes = []spec.Node{a100("real", 1)}
		f := w.build()
		if err := f.Run(w.t.Context()); err == nil || !strings.Contains(err.Error(), "not simulated") {
			t.Errorf("Run = %v, want a refusal", err)
		}
		w.spec.Nodes = nil
		w.start()
		for host, want := range map[string]bool{"n1.sim.internal": true, "real.sim.internal": false, "10.64.0.1": true, "10.65.0.9": true, "10.66.0.9": false, "10.96.0.1": false, "127.0.0.1": false} {
			if got := w.fleet.Simulated(host); got != want {
				t.Errorf("Simulated(%s) = %v", host, got)
			}
		}
	}, a100("n1", 1))
}

// trains makes a pod that of a rank of a training job.
func trains(name string) *v1.Pod {
	return named(owned(policy(bare("x/train:1", "python", "train.py"), v1.RestartPolicyNever), "PyTorchJob"), name, 1)
}

// busy returns how busy the GPU of a pod is.
func (w *world) busy(pod string) float64 {
	w.t.Helper()
	for _, c := range w.fleet.Containers("n1", "default", pod) {
		for _, d := range w.fleet.View("n1", []string{c.Devices[0].UUID}).Devices {
			return d.Reading.UtilizationRatio
		}
	}
	w.t.Fatalf("pod %s has no GPU", pod)
	return 0
}

// faultOf puts a fault on the GPU of a pod.
func (w *world) faultOf(kind, pod string) {
	w.t.Helper()
	c := w.fleet.Containers("n1", "default", pod)[0]
	w.annotate("n1", "berth.dev/faults", fmt.Sprintf(`["%s/%d"]`, kind, c.Devices[0].GPU))
}

func TestARankThatHangsKeepsTheOthersWaiting(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(trains("hangs"), "n1")
		w.bind(trains("waits"), "n1")
		alone := owned(trains("alone"), "PyTorchJob")
		alone.OwnerReferences[0].UID = "another"
		w.bind(alone, "n1")
		w.after(15 * time.Second)
		w.faultOf("rank-hang", "hangs")
		w.after(time.Minute)
		w.want("hangs", "Running c:ready")
		w.want("waits", "Running c:ready")
		w.want("alone", "Succeeded c:Completed(0)")
		if hangs, waits := w.busy("hangs"), w.busy("waits"); hangs > 0 || waits < 0.5 {
			t.Errorf("the GPU of the rank that hangs is busy by %v, that of the one which waits by %v", hangs, waits)
		}
		for _, pod := range []string{"hangs", "waits"} {
			if log := w.log(pod); !strings.Contains(log, "step 10 loss 2.2531") || strings.Contains(log, "step 20") {
				t.Errorf("%s has printed %q", pod, log)
			}
		}
		w.annotate("n1", "berth.dev/faults", "")
		w.after(6 * time.Second) // 5 s are left until the next line
		for _, pod := range []string{"hangs", "waits"} {
			if log := w.log(pod); !strings.Contains(log, "step 20") || w.busy(pod) < 0.5 {
				t.Errorf("healed, %s has printed %q, and is busy by %v", pod, log, w.busy(pod))
			}
		}
		w.after(10 * time.Second)
		w.want("hangs", "Succeeded c:Completed(0)")
		w.want("waits", "Succeeded c:Completed(0)")
	}, a100("n1", 3))
}

func TestARankThatHangsDoesNotEndWhenItIsAsked(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(trains("hangs"), "n1")
		w.bind(trains("waits"), "n1")
		w.after(2 * time.Second)
		w.faultOf("rank-hang", "hangs")
		w.after(time.Second)
		w.remove("waits", 30)
		w.remove("hangs", 30)
		w.after(5 * time.Second)
		w.want("hangs", "Running c:ready")
		if pods, err := w.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil || len(pods.Items) != 1 {
			t.Errorf("%v; the rank that only waits is still there: %d pods", err, len(pods.Items))
		}
	}, a100("n1", 2))
}

func TestAProgramThatUsesTooMuchMemoryIsKilledWheneverItRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(named(policy(bare("x/train:1", "python", "train.py"), v1.RestartPolicyOnFailure), "p", 1), "n1")
		w.after(5 * time.Second)
		w.want("p", "Running c:ready")
		w.annotate("n1", "berth.dev/faults", `["oom/0"]`)
		w.after(time.Second)
		last := w.pod("p").Status.ContainerStatuses[0].LastTerminationState.Terminated
		if last == nil || last.ExitCode != 137 || last.Reason != "OOMKilled" {
			t.Errorf("it ended as %+v", last)
		}
		w.after(3 * time.Second)
		w.want("p", "Running c:CrashLoopBackOffx1")
		w.annotate("n1", "berth.dev/faults", "")
		w.after(15 * time.Second)
		w.want("p", "Running c:readyx2")
	}, a100("n1", 1))
}
