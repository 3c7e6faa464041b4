package devices_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/scheduler/devices"
	"berth.dev/berth/test/soak"
)

// cluster is an API server and a scheduler around the plugin, whose every step
// the test takes: what the scheduler has seen lags behind what the API has.
type cluster struct {
	t       *testing.T
	chance  *rand.Rand
	plugin  *devices.Plugin
	handle  *handle
	sizes   map[string]int64
	api     map[string]*v1.Pod // by name: the truth
	seen    map[string]*v1.Pod // bound pods as the scheduler's cache has them, assumed ones too
	binding map[string]fwk.CycleState
	late    []*v1.Binding // sent, unanswered and still on their way
	made    int
	clock   int64 // generations
}

// TestNoDeviceIsEverCommittedTwice takes random steps: pods come and go, cycles
// and bindings overlap, binding requests are refused, lost before or after they
// arrive or come late, what the API has is seen late, and the scheduler starts
// anew. After every step the devices in the API fit the GPUs, and now and then
// what the plugin has followed is what a new one would see.
func TestNoDeviceIsEverCommittedTwice(t *testing.T) {
	soak.Plainly(t)
	bound, seeds := 0, soak.Pick[uint64](40, 150)
	for seed := range seeds {
		s := gpu.Sharing{}
		if seed%3 == 2 {
			s = gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{api.ResourceGPU: 3}}
		}
		c := newCluster(t, seed, s)
		for step := range 400 {
			c.step()
			if over := c.judge(); over != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, over)
			}
			if step%40 == 0 {
				c.refresh()
				if drift := devices.Drift(c.plugin, c.handle.list()); drift != "" {
					t.Fatalf("seed %d, step %d: %s", seed, step, drift)
				}
			}
		}
		for _, p := range c.api {
			if p.Spec.NodeName != "" {
				bound++
			}
		}
	}
	if bound < 2*int(seeds) {
		t.Errorf("%d pods were bound at the ends of %d runs: too few to show anything", bound, seeds)
	}
}

func newCluster(t *testing.T, seed uint64, s gpu.Sharing) *cluster {
	c := &cluster{
		t: t, chance: rand.New(rand.NewPCG(seed, 1)), sizes: map[string]int64{}, api: map[string]*v1.Pod{},
		seen: map[string]*v1.Pod{}, binding: map[string]fwk.CycleState{}, handle: &handle{},
	}
	for _, name := range []string{"n1", "n2"} {
		n := t4Node(t, name, 2, s)
		c.handle.nodes = append(c.handle.nodes, &info{node: n})
		var list []struct {
			UUID        string
			MemoryBytes int64
		}
		if err := json.Unmarshal([]byte(n.Annotations[api.AnnotationInventory]), &list); err != nil {
			t.Fatal(err)
		}
		for _, g := range list {
			c.sizes[g.UUID] = g.MemoryBytes
		}
	}
	c.handle.client = client(c.bind, func(name string) *v1.Pod { return c.api[name] })
	c.plugin = newPlugin(t, c.handle)
	return c
}

func (c *cluster) step() {
	switch n := c.chance.IntN(100); {
	case n < 20:
		c.create()
	case n < 50:
		c.schedule()
	case n < 70:
		c.finish()
	case n < 88:
		c.deliver()
	case n < 95:
		c.remove()
	case n < 98:
		c.arrive()
	default:
		c.restart()
	}
}

func (c *cluster) create() {
	c.made++
	name := fmt.Sprint("p", c.made)
	want := v1.ResourceList{api.ResourceGPU: *resource.NewQuantity(1+c.chance.Int64N(2), resource.DecimalSI)}
	if c.chance.IntN(2) == 0 {
		want = v1.ResourceList{api.ResourceGPUMemory: *resource.NewQuantity(1+c.chance.Int64N(9), resource.DecimalSI)}
	}
	c.api[name] = &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "d", UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: want}}}},
	}
}

// any picks one of a map's keys that pass.
func (c *cluster) any(pods map[string]*v1.Pod, pass func(string) bool) (string, bool) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(pods)), func(n string) bool { return !pass(n) })
	if len(names) == 0 {
		return "", false
	}
	return names[c.chance.IntN(len(names))], true
}

// schedule is a scheduling cycle of a pod that the scheduler believes unbound.
func (c *cluster) schedule() {
	name, ok := c.any(c.api, func(n string) bool {
		return c.seen[n] == nil && (c.api[n].Spec.NodeName == "" || c.chance.IntN(4) == 0)
	})
	if !ok {
		return
	}
	pod := c.api[name].DeepCopy()
	pod.Spec.NodeName, pod.Annotations = "", nil // as it was when it was queued
	c.refresh()
	s := &state{data: map[fwk.StateKey]fwk.StateData{}}
	feasible, status := c.handle.feasible(c.t, c.plugin, s, pod)
	if len(feasible) == 0 {
		if status.Code() == fwk.Error {
			c.t.Fatalf("no node: %v", status)
		}
		return
	}
	if len(feasible) > 1 {
		if status := c.plugin.PreScore(c.t.Context(), s, pod, c.handle.list()); !status.IsSuccess() {
			c.t.Fatalf("PreScore: %v", status)
		}
	}
	pod.Spec.NodeName = feasible[c.chance.IntN(len(feasible))].node.Name
	if status := c.plugin.Reserve(c.t.Context(), s, pod, pod.Spec.NodeName); !status.IsSuccess() {
		c.t.Fatalf("Reserve after Filter said yes: %v", status)
	}
	c.seen[name], c.binding[name] = pod, s
}

// finish is the end of a binding cycle.
func (c *cluster) finish() {
	name, ok := c.any(c.seen, func(n string) bool { return c.binding[n] != nil })
	if !ok {
		return
	}
	pod, s := c.seen[name], c.binding[name]
	delete(c.binding, name)
	if c.plugin.Bind(c.t.Context(), s, pod, pod.Spec.NodeName).IsSuccess() {
		return
	}
	c.plugin.Unreserve(c.t.Context(), s, pod, pod.Spec.NodeName)
	if c.seen[name] == pod {
		delete(c.seen, name) // the scheduler's cache forgets it
	}
}

// bind is the API server's part, and the network's.
func (c *cluster) bind(b *v1.Binding) error {
	switch c.chance.IntN(8) {
	case 0:
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, b.Name, errors.New("a webhook says no"))
	case 1:
		_ = c.write(b)
		return errors.New("connection reset by peer, after it arrived")
	case 2:
		return errors.New("connection reset by peer, before it arrived")
	case 3:
		c.late = append(c.late, b)
		return errors.New("timed out, and still on its way")
	}
	return c.write(b)
}

// write does what POST pods/binding does.
func (c *cluster) write(b *v1.Binding) error {
	p := c.api[b.Name]
	switch {
	case p == nil || p.UID != b.UID:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, b.Name)
	case p.Spec.NodeName != "":
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, b.Name, errors.New("it is bound"))
	}
	p = p.DeepCopy()
	p.Spec.NodeName, p.Annotations = b.Target.Name, b.Annotations
	c.api[b.Name] = p
	return nil
}

// arrive lets a late binding come.
func (c *cluster) arrive() {
	if len(c.late) > 0 {
		_ = c.write(c.late[0]) // nobody reads the answer
		c.late = c.late[1:]
	}
}

// deliver shows the scheduler how one pod is in the API: to the plugin's handler
// and to the cache, in either order.
func (c *cluster) deliver() {
	all := maps.Clone(c.api)
	maps.Copy(all, c.seen)
	name, ok := c.any(all, func(string) bool { return true })
	if !ok {
		return
	}
	now, old := c.api[name], all[name]
	toHandler := func() {
		if now == nil {
			c.handle.handler.OnDelete(old)
		} else {
			c.handle.handler.OnUpdate(old, now)
		}
	}
	toCache := func() {
		switch {
		case now == nil:
			delete(c.seen, name)
		case now.Spec.NodeName != "":
			c.seen[name] = now
		}
	}
	if c.chance.IntN(2) == 0 {
		toHandler()
		if c.chance.IntN(2) == 0 && now != nil {
			c.schedule() // a cycle between the two
		}
		toCache()
		return
	}
	toCache()
	toHandler()
}

func (c *cluster) remove() {
	if name, ok := c.any(c.api, func(string) bool { return true }); ok {
		delete(c.api, name)
	}
}

// restart starts a new scheduler, when nothing of the old one is on its way.
func (c *cluster) restart() {
	for len(c.late) > 0 {
		c.arrive()
	}
	clear(c.seen)
	clear(c.binding)
	for name, p := range c.api {
		if p.Spec.NodeName != "" {
			c.seen[name] = p
		}
	}
	c.plugin = newPlugin(c.t, c.handle)
}

// refresh is the scheduler's snapshot at the start of a cycle.
func (c *cluster) refresh() {
	for _, n := range c.handle.nodes {
		var pods []*v1.Pod
		for _, name := range slices.Sorted(maps.Keys(c.seen)) {
			if c.seen[name].Spec.NodeName == n.node.Name {
				pods = append(pods, c.seen[name])
			}
		}
		if !slices.Equal(pods, n.pods) || n.generation == 0 {
			c.clock++
			n.pods, n.generation = pods, c.clock
		}
	}
}

// judge reads the API alone: which GPU has more committed than it is.
func (c *cluster) judge() string {
	milli, memory := map[string]int64{}, map[string]int64{}
	shared := map[string]bool{}
	for name, p := range c.api {
		if p.Spec.NodeName == "" {
			continue
		}
		var given map[string][]struct {
			UUID        string
			MilliGPU    int64
			MemoryBytes int64
		}
		if err := json.Unmarshal([]byte(p.Annotations[api.AnnotationDevices]), &given); err != nil || len(given["main"]) == 0 {
			return fmt.Sprintf("pod %s is bound with devices %q", name, p.Annotations[api.AnnotationDevices])
		}
		for _, d := range given["main"] {
			milli[d.UUID] += d.MilliGPU
			memory[d.UUID] += d.MemoryBytes
			shared[d.UUID] = shared[d.UUID] || d.MilliGPU == 333 // time-slicing fences no memory
		}
	}
	for uuid, n := range milli {
		size, known := c.sizes[uuid]
		if !known || n > 1000 || memory[uuid] > size && !shared[uuid] {
			return fmt.Sprintf("GPU %s has %d milli-GPUs and %d bytes of %d committed", uuid, n, memory[uuid], size)
		}
	}
	return ""
}
