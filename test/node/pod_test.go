//go:build linux

package node_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	gpuResource       = "nvidia.com/gpu"
	devicesAnnotation = "berth.dev/devices"
	berthScheduler    = "berth-scheduler"
)

// patience is how long anything may take on a machine with much to do: it only
// ends what would never come. answerTime is the same for one answer of a process.
const (
	patience   = 2 * time.Minute
	answerTime = 30 * time.Second
)

// report is what a container of gpuapp says it sees.
type report struct {
	Env   map[string]string
	Nodes map[string]string
	Made  map[string]string
	Kept  int

	GPUs   []string
	Failed string
}

// device is one of a commitment.
type device struct {
	UUID        string `json:"uuid"`
	MilliGPU    int64  `json:"milliGPU"`
	MemoryBytes int64  `json:"memoryBytes,omitempty"`
}

// a100Bytes is the memory of an A100 of 40 GiB, and h200Bytes that of an H200, as
// their driver gives it.
const (
	a100Bytes = 40 << 30
	h200Bytes = 143771 << 20
)

// commit writes whole A100s for containers: commit("c", "GPU-3") or several
// pairs, with commas between the devices of one.
func commit(pairs ...string) string { return commitOf(a100Bytes, pairs...) }

// commitOf is commit for whole GPUs with another memory.
func commitOf(memoryBytes int64, pairs ...string) string {
	all := map[string][]device{}
	for i := 0; i+1 < len(pairs); i += 2 {
		for uuid := range strings.SplitSeq(pairs[i+1], ",") {
			all[pairs[i]] = append(all[pairs[i]], device{UUID: uuid, MilliGPU: 1000, MemoryBytes: memoryBytes})
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(data)
}

// container reports, and asks for n of a resource.
func container(name, what string, n int64) v1.Container {
	c := v1.Container{
		Name: name, Image: appImage, ImagePullPolicy: v1.PullNever, Args: []string{"report"},
		Env: []v1.EnvVar{{Name: "TEST_MAJOR", Value: fmt.Sprint(major)}},
	}
	if n > 0 {
		c.Resources.Limits = v1.ResourceList{v1.ResourceName(what): *resource.NewQuantity(n, resource.DecimalSI)}
	}
	return c
}

// uidOf is the UID of a static pod.
func uidOf(name string) types.UID { return types.UID(name + "-uid") }

// pod has one container, c, that asks for n GPUs. devices is its commitment; ""
// is none.
func pod(name, devices string, n int64) *v1.Pod {
	p := &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uidOf(name), Annotations: map[string]string{}},
		Spec: v1.PodSpec{
			HostNetwork: true, TerminationGracePeriodSeconds: new(int64(1)), SchedulerName: berthScheduler,
			AutomountServiceAccountToken: new(bool), EnableServiceLinks: new(bool),
			Containers: []v1.Container{container("c", gpuResource, n)},
		},
	}
	if devices != "" {
		p.Annotations[devicesAnnotation] = devices
	}
	return p
}

// uncommitted is a pod of another scheduler, which commits nothing.
func uncommitted(name, what string, n int64) *v1.Pod {
	p := pod(name, "", 0)
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	p.Spec.Containers = []v1.Container{container("c", what, n)}
	return p
}

// apply gives the kubelet a static pod, or a new form of one. Without an API
// server the form that a pod comes in says all of it.
func (n *node) apply(pods ...*v1.Pod) {
	n.t.Helper()
	for _, p := range pods {
		data, err := json.Marshal(p)
		if err != nil {
			n.t.Fatal(err)
		}
		if err := replaceFile(filepath.Join(manifestDir, p.Name+".json"), string(data)); err != nil {
			n.t.Fatal(err)
		}
	}
}

// remove takes static pods away, and waits until the kubelet has forgotten them
// and none of their processes is left.
func (n *node) remove(t *testing.T, names ...string) {
	t.Helper()
	if err := n.removed(names...); err != nil {
		t.Fatal(err)
	}
}

func (n *node) removed(names ...string) error {
	for _, name := range names {
		if err := os.Remove(filepath.Join(manifestDir, name+".json")); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return until(patience, "the kubelet forgets pods", func() error {
		have, err := n.pods()
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, ok := have[name]; ok {
				return fmt.Errorf("pod %s is there", name)
			}
			if pids := processes(uidOf(name)); len(pids) > 0 {
				return fmt.Errorf("processes %v of pod %s are there", pids, name)
			}
		}
		return nil
	})
}

// processes are those of a pod's containers, by its UID, without its sandbox.
func processes(uid types.UID) []int { return processesOf(uid, "/gpuapp\x00") }

// processesOf are those of a pod whose command lines begin so and say more.
func processesOf(uid types.UID, command string) []int {
	var pids []int
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err != nil {
			continue
		}
		if data, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(data), command) || len(data) == len(command) {
			continue // ended, the sandbox's, or another program
		}
		group, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cgroup"))
		if err == nil && strings.Contains(string(group), "/pod"+string(uid)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// clear removes all pods that a test may have left.
func (n *node) clear(t *testing.T) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(manifestDir, "*.json"))
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	n.remove(t, names...)
}

// reported reads what a container has said, the last time that it was started.
func reported(name, container string) (report, error) {
	logs, _ := filepath.Glob(filepath.Join(podLogDir, "*_"+name+"-"+nodeName+"_*", container, "*.log"))
	if len(logs) == 0 {
		logs, _ = filepath.Glob(filepath.Join(podLogDir, "*_"+name+"_*", container, "*.log"))
	}
	if len(logs) == 0 {
		return report{}, fmt.Errorf("pod %s: container %s has no log", name, container)
	}
	data, err := os.ReadFile(logs[len(logs)-1])
	if err != nil {
		return report{}, err
	}
	_, text, ok := strings.Cut(string(data), " stdout F ")
	var r report
	if !ok {
		return r, fmt.Errorf("pod %s: container %s has said nothing yet: %s", name, container, data)
	}
	return r, json.Unmarshal([]byte(text), &r)
}

// sees waits for a container's report.
func (n *node) sees(t *testing.T, name, container string) report {
	t.Helper()
	var r report
	eventually(t, patience, "container "+container+" of pod "+name+" reports", func() error {
		var err error
		if r, err = reported(name, container); err != nil {
			err = fmt.Errorf("%w (%s)", err, n.state(name))
		}
		return err
	})
	return r
}

// state says in a line how a pod is.
func (n *node) state(name string) string {
	have, err := n.pods()
	if err != nil {
		return err.Error()
	}
	p, ok := have[name]
	if !ok {
		return "the kubelet has no such pod"
	}
	s := fmt.Sprintf("%s %s %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		switch {
		case c.State.Waiting != nil:
			s += fmt.Sprintf("; %s waits: %s: %s", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message)
		case c.State.Terminated != nil:
			s += fmt.Sprintf("; %s ended: %s: %s", c.Name, c.State.Terminated.Reason, c.State.Terminated.Message)
		case c.State.Running != nil:
			s += fmt.Sprintf("; %s runs", c.Name)
		}
	}
	return s
}

// waits until a pod's state says all of the words.
func (n *node) waits(t *testing.T, name string, words ...string) {
	t.Helper()
	eventually(t, patience, "pod "+name+" says why it waits", func() error {
		s := n.state(name)
		for _, w := range words {
			if !strings.Contains(s, w) {
				return fmt.Errorf("want %q in: %s", w, s)
			}
		}
		return nil
	})
}

// major is the number of the device nodes that stand for GPUs: one of those kept
// for local use that no driver of this machine has.
var major = freeMajor()

func freeMajor() int {
	data, _ := os.ReadFile("/proc/devices") // without it, the first will do
	for m := 240; m < 255; m++ {
		if !strings.Contains(string(data), fmt.Sprintf("\n%3d ", m)) {
			return m
		}
	}
	return 240
}
