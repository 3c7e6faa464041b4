package fleet_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/fleet/spec"
	"berth.dev/berth/kube/devices"
)

const (
	migLabel = "nvidia.com/mig.config"
	migState = "nvidia.com/mig.config.state"
)

// label sets a label of a node, or removes it where value is "".
func (w *world) label(node, key, value string) {
	w.t.Helper()
	set := "null"
	if value != "" {
		set = fmt.Sprintf("%q", value)
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, set)
	if _, err := w.client.CoreV1().Nodes().Patch(w.t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.after(time.Second)
}

// cut returns how the GPUs of node n1 are partitioned: the state, and of each GPU its
// profiles, "-" where MIG is off, with "!" if no new pod gets it.
func (w *world) cut() string {
	w.t.Helper()
	n := w.node("n1")
	var list []devices.InventoryGPU
	if err := json.Unmarshal([]byte(n.Annotations["berth.dev/inventory"]), &list); err != nil {
		w.t.Fatal(err)
	}
	out := []string{n.Labels[migState] + ":"}
	for _, g := range list {
		var profiles []string
		for _, m := range g.MIG {
			profiles = append(profiles, m.Profile)
		}
		word := strings.Join(profiles, "+")
		if g.ComputeSlices == 0 {
			word = "-"
		}
		if !g.Healthy {
			word += "!"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func (w *world) wantCut(when, want string) {
	w.t.Helper()
	if got := w.cut(); got != want {
		w.t.Errorf("%s: %q, want %q\n%s", when, got, want, w.events())
	}
}

func single(n spec.Node) spec.Node {
	n.Sharing.MIGStrategy = gpu.MIGSingle
	return n
}

const halves = "success: 3g.20gb+3g.20gb 3g.20gb+3g.20gb"

func TestTheMIGLabelOfANodePartitionsItsGPUs(t *testing.T) {
	inWorld(t, func(w *world) {
		states := w.states()
		w.label("n1", migLabel, "all-3g.20gb")
		w.wantCut("after the label", halves)
		if got := strings.Join(states(), " "); got != "pending success" {
			t.Errorf("the label said %q, want pending, then success", got)
		}
		n := w.node("n1")
		for key, want := range map[string]string{"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-3g.20gb.count": "4", migLabel: "all-3g.20gb"} {
			if n.Labels[key] != want {
				t.Errorf("label %s is %q, want %q", key, n.Labels[key], want)
			}
		}
		w.wantAllocatable("n1", "nvidia.com/mig-3g.20gb", 4)
		w.wantAllocatable("n1", "nvidia.com/gpu", 0)
		for _, event := range []string{
			"n1 MIGConfigPending: MIG config all-3g.20gb: GPU 0: MIG mode on; GPU 1: MIG mode on", "n1 MIGConfigApplied: MIG config all-3g.20gb is applied",
		} {
			if !strings.Contains(w.events(), event) {
				t.Errorf("no event %q:\n%s", event, w.events())
			}
		}
		w.label("n1", migLabel, "all-disabled")
		w.wantCut("with all-disabled", "success: - -")
		w.wantAllocatable("n1", "nvidia.com/gpu", 2)
		w.label("n1", migLabel, "")
		w.wantCut("without the label", ": - -")
	}, a100("n1", 2))
}

// states collects the values that the state label of n1 has from now on.
func (w *world) states() func() []string {
	w.t.Helper()
	watch, err := w.client.CoreV1().Nodes().Watch(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range watch.ResultChan() {
			n, ok := e.Object.(*v1.Node)
			if ok && n.Labels[migState] != "" && (len(out) == 0 || out[len(out)-1] != n.Labels[migState]) {
				out = append(out, n.Labels[migState])
			}
		}
	}()
	return func() []string {
		watch.Stop()
		<-ended
		return out
	}
}

func TestGPUsThatPodsHoldArePartitionedWhenTheyEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(named(bare("busybox", "sleep", "infinity"), "one", 1), "n1")
		w.after(5 * time.Second)
		held := ids(w.pod("one"))[0]
		w.label("n1", migLabel, "all-3g.20gb")
		w.wantCut("while a pod holds GPU 0", "pending: -! 3g.20gb+3g.20gb")
		if want := "MIG config all-3g.20gb: GPU 0: held by pod default/one"; !strings.Contains(w.events(), want) {
			t.Errorf("no event %q:\n%s", want, w.events())
		}
		if got := w.pod("one").Status.ContainerStatuses[0].AllocatedResourcesStatus[0].Resources[0]; got.Health != v1.ResourceHealthStatusHealthy || string(got.ResourceID) != held {
			t.Errorf("the pod that is waited for has device %s, which is %s; want %s, healthy", got.ResourceID, got.Health, held)
		}
		w.bind(named(bare("busybox", "sleep", "infinity"), "late", 1), "n1")
		w.after(5 * time.Second)
		if p := w.pod("late"); p.Status.Reason != "UnexpectedAdmissionError" {
			t.Errorf("a pod got a GPU that is to be partitioned: %s", line(p))
		}
		w.kill()
		w.start()
		w.after(time.Second)
		w.wantCut("after a restart", "pending: -! 3g.20gb+3g.20gb")
		w.want("one", "Running c:ready")
		if got := ids(w.pod("one")); len(got) != 1 || got[0] != held {
			t.Errorf("after a restart the pod holds %v, want %s", got, held)
		}
		w.remove("one", 1)
		w.after(10 * time.Second)
		w.wantCut("after the pod", halves)
		w.kill()
		w.start()
		w.after(time.Second)
		w.wantCut("after another restart", halves)
		w.wantAllocatable("n1", "nvidia.com/mig-3g.20gb", 4)
	}, a100("n1", 2))
}

func TestAMIGLabelThatCannotBeAppliedIsExplained(t *testing.T) {
	t4, _ := gpu.Find("Tesla T4")
	for _, tt := range []struct {
		name, label, want string
		node              spec.Node
	}{
		{"no such configuration", "all-3g.21gb", `specified MIG config all-3g.21gb does not exist; did you mean "all-3g.20gb"?`, a100("n1", 1)},
		{"GPUs without MIG", "all-1g.5gb", "specified MIG config all-1g.5gb does not exist", spec.Node{Name: "n1", CPU: 8, MemoryGiB: 8, Pods: 9, Driver: "570.124.06", CUDA: "12.8", GPUs: gpu.New("n1", t4, 1)}},
		{"MIG without devices under strategy single", "all-enabled", "device 0 has no MIG devices configured; cut it, or turn its MIG off; the GPUs are unchanged", single(a100("n1", 1))},
		{"a configuration of the file that is wrong", "mine", "unknown field", a100("n1", 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.configMap("gpu-operator", "default-mig-parted-config", "version: v1\nmig-configs:\n  mine:\n  - {devices: all, mig-enabled: true, mig-devises: {1g.5gb: 7}}\n")
				w.label("n1", migLabel, tt.label)
				w.wantCut("with the label", "failed: -")
				if !strings.Contains(w.events(), tt.want) {
					t.Errorf("no event says %q:\n%s", tt.want, w.events())
				}
			}, tt.node)
		})
	}
}

// Under strategy single a node offers MIG devices only if all its GPUs have the same.
func TestUnderStrategySingleANodeIsPartitionedAsAWhole(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(named(bare("busybox", "sleep", "infinity"), "one", 1), "n1")
		w.after(5 * time.Second)
		w.label("n1", migLabel, "all-3g.20gb")
		w.wantCut("while a pod holds GPU 0", "pending: -! -!")
		w.remove("one", 1)
		w.after(10 * time.Second)
		w.wantCut("after the pod", halves)
		w.wantAllocatable("n1", "nvidia.com/gpu", 4)
	}, single(a100("n1", 2)))
}

func TestConfigurationsOfTheOperatorsFileAreApplied(t *testing.T) {
	inWorld(t, func(w *world) {
		w.configMap("gpu-operator", "default-mig-parted-config", `version: v1
mig-configs:
  all-balanced:
  - devices: [0]
    mig-enabled: true
    mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}
  - devices: [1]
    mig-enabled: false
`)
		w.label("n1", migLabel, "all-balanced")
		w.wantCut("with the label", "success: 2g.10gb+1g.5gb+1g.5gb+3g.20gb -")
		w.annotate("n1", "berth.dev/faults", `["driver"]`)
		w.label("n1", migLabel, "all-disabled")
		w.wantCut("while the driver is broken", "pending: 2g.10gb+1g.5gb+1g.5gb+3g.20gb! -!")
		w.annotate("n1", "berth.dev/faults", `[]`)
		w.after(time.Second)
		w.wantCut("when it is back", "success: - -")
	}, a100("n1", 2))
}
