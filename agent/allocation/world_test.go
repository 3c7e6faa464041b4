package allocation_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/agent/allocation"
	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
)

const (
	whole  = "nvidia.com/gpu"
	memory = "nvidia.com/gpu-memory"
	a100   = "NVIDIA A100-SXM4-40GB"
)

// world is a node with a kubelet's device manager, a scheduler's commitments and
// a driver, all of them slow and obvious.
type world struct {
	t        testing.TB
	dir      string // of CDI specs
	devices  string // the kubelet's
	node     *allocation.Node
	options  allocation.Options
	snapshot nvml.Snapshot
	healthy  map[string]bool
	settings config.Settings
	pods     *podList
	rng      *rand.Rand

	held   map[held]answer // the kubelet's
	events []string
}

type held struct{ pod, container, resource string }

type answer struct {
	ids  []string
	resp *v1beta1.ContainerAllocateResponse
}

// podList is a source of pods that remembers what it was last told.
type podList struct {
	mu      sync.Mutex
	now     map[string]*v1.Pod // what is true
	known   map[string]*v1.Pod // what has been noticed
	err     error
	changed chan struct{}
}

func (l *podList) list(fresh bool) map[string]*v1.Pod {
	if fresh {
		return l.now
	}
	return l.known
}

func (l *podList) Pod(_ context.Context, uid string, fresh bool) (*v1.Pod, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	return l.list(fresh)[uid], nil
}

func (l *podList) Pods(_ context.Context, fresh bool) ([]*v1.Pod, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Values(l.list(fresh)), func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) }), l.err
}

func (l *podList) Changed() <-chan struct{} { return l.changed }

// put tells of a pod at once; slow ones are only true, not noticed.
func (l *podList) put(p *v1.Pod, noticed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now[string(p.UID)] = p
	if noticed {
		l.known[string(p.UID)] = p
	}
}

func (l *podList) remove(uid string, noticed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.now, uid)
	if noticed {
		delete(l.known, uid)
	}
}

func newWorld(t testing.TB, gpus []gpu.GPU) *world {
	t.Helper()
	w := &world{
		t: t, dir: t.TempDir(), devices: t.TempDir(), healthy: map[string]bool{}, settings: config.DefaultSettings(),
		pods: &podList{now: map[string]*v1.Pod{}, known: map[string]*v1.Pod{}, changed: make(chan struct{}, 1)},
		rng:  rand.New(rand.NewPCG(1, 2)), held: map[held]answer{},
	}
	w.snapshot = snapshotOf(gpus)
	w.options = allocation.Options{
		CDIDir: w.dir, DeviceDir: w.devices, DevRoot: t.TempDir(), Pods: w.pods, SchedulerNames: []string{"berth-scheduler"},
		DriverCDI: func(context.Context) ([]byte, error) { return driverCDI(w.snapshot) },
		Event: func(p *v1.Pod, kind, reason, message string) {
			w.events = append(w.events, fmt.Sprintf("%s %s %s: %s", p.Name, kind, reason, message))
		},
	}
	return w
}

// snapshotOf is what the driver says of GPUs.
func snapshotOf(gpus []gpu.GPU) nvml.Snapshot {
	s := nvml.Snapshot{Driver: "570.124.06", CUDA: "12.8"}
	for i, g := range gpus {
		item := nvml.GPU{GPU: g, Minor: i, Nodes: []string{fmt.Sprintf("/dev/nvidia%d", i)}, MIGNodes: map[string][]string{}}
		for j, m := range g.MIG {
			item.MIGNodes[m.UUID] = []string{fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", 10*i+j)}
		}
		s.GPUs = append(s.GPUs, item)
	}
	return s
}

// driverCDI is a CDI spec as the driver's tools make it.
func driverCDI(s nvml.Snapshot) ([]byte, error) {
	node := func(path string) *cdi.DeviceNode {
		return &cdi.DeviceNode{Path: path, Type: "c", Major: 195, Permissions: "rw"}
	}
	spec := cdi.Spec{Version: "0.6.0", Kind: "nvidia.com/gpu"}
	spec.ContainerEdits = cdi.ContainerEdits{
		Env:         []string{"NVIDIA_VISIBLE_DEVICES=void", "DRIVER=" + s.Driver},
		DeviceNodes: []*cdi.DeviceNode{node("/dev/nvidiactl")},
	}
	for _, g := range s.GPUs {
		nodes := []*cdi.DeviceNode{}
		for _, path := range g.Nodes {
			nodes = append(nodes, node(path))
		}
		spec.Devices = append(spec.Devices, cdi.Device{Name: g.UUID, ContainerEdits: cdi.ContainerEdits{DeviceNodes: nodes}})
		for _, m := range g.MIG {
			of := slices.Clone(nodes)
			for _, path := range g.MIGNodes[m.UUID] {
				of = append(of, node(path))
			}
			spec.Devices = append(spec.Devices, cdi.Device{Name: m.UUID, ContainerEdits: cdi.ContainerEdits{DeviceNodes: of}})
		}
	}
	return json.Marshal(spec)
}

// start starts an agent, as after kill -9 if one ran before.
func (w *world) start() *world {
	w.t.Helper()
	if w.node != nil {
		w.node.Close()
	}
	n, err := allocation.New(context.Background(), w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.node = n
	w.t.Cleanup(n.Close)
	w.set()
	if err := n.Tidy(context.Background()); err != nil && w.pods.err == nil {
		w.t.Fatal(err)
	}
	return w
}

// set tells the agent of the node's present GPUs, health and settings.
func (w *world) set() {
	w.t.Helper()
	if err := w.node.SetGPUs(w.snapshot, w.healthy, w.settings); err != nil {
		w.t.Fatal(err)
	}
}

// asks is a container that asks for so many of resources: "nvidia.com/gpu", 2.
func asks(name string, list ...any) v1.Container {
	c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}}}
	for i := 0; i+1 < len(list); i += 2 {
		c.Resources.Limits[v1.ResourceName(list[i].(string))] = *resource.NewQuantity(int64(list[i+1].(int)), resource.DecimalSI)
	}
	c.Resources.Requests = c.Resources.Limits
	return c
}

// pod makes one whose UID is "uid-" and its name.
func pod(name string, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{Containers: containers, SchedulerName: "default-scheduler"},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	}
}

// commits adds the scheduler's annotation: by container, devices such as
// "GPU-1" (of an A100 of 40 GB) or "GPU-1 500 21474836480".
func commits(p *v1.Pod, by map[string][]string) *v1.Pod {
	out := map[string][]map[string]any{}
	for name, list := range by {
		out[name] = []map[string]any{}
		for _, text := range list {
			uuid, milli, bytes := text, int64(1000), int64(40<<30)
			_, _ = fmt.Sscanf(text, "%s %d %d", &uuid, &milli, &bytes)
			out[name] = append(out[name], map[string]any{"uuid": uuid, "milliGPU": milli, "memoryBytes": bytes})
		}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	p = p.DeepCopy()
	p.Spec.SchedulerName = "berth-scheduler"
	p.Annotations = map[string]string{api.AnnotationDevices: string(raw)}
	return p
}

// end is a pod that has gone.
func (w *world) end(p *v1.Pod) {
	w.t.Helper()
	w.pods.remove(string(p.UID), true)
	w.forget(string(p.UID))
	if err := w.node.Tidy(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// holders writes who holds what: "pod/container GPU GPU*", "*" for committed.
func (w *world) holders() string {
	var out []string
	for _, h := range w.node.Holders() {
		text := h.Pod + "/" + h.Container
		for _, d := range h.Devices {
			text += fmt.Sprintf(" %d", d.GPU)
		}
		if h.Committed {
			text += "*"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// dirNames lists a folder, without the agent's lock.
func dirNames(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		if e.Name() != ".berth-agent.lock" {
			out = append(out, e.Name())
		}
	}
	return out
}
