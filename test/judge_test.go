package test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/core/sharing"
)

// judge follows the pods of a namespace in the API, event by event, and adds up
// what they have of each GPU: by the annotation that the scheduler has
// committed, and by what the node says it gave. It asks no scheduler. The first
// event after which a GPU has more than it is, a pod is bound without devices or
// with those of another node, or a node gave others than were committed is kept
// as the verdict.
type judge struct {
	namespace string
	gpus      map[string]judged // by UUID

	mu        sync.Mutex
	client    kubernetes.Interface // the API server may come back on another port
	pods      map[types.UID]*v1.Pod
	committed map[string]sum                // by UUID
	observed  map[string]map[types.UID]bool // who has a device, by its ID
	given     map[string]int64              // GiB of shares by memory that nodes gave, by UUID
	events    int
	verdict   string
	excused   func(*v1.Pod) bool // pods that may fail, or be bound without devices
}

// judged is a GPU as its node publishes it.
type judged struct {
	node string
	size int64
}

// sum is what pods have of one GPU together.
type sum struct{ milli, bytes int64 }

// newJudge judges until the test ends. excused may be nil: then no pod may fail.
func newJudge(t *testing.T, client kubernetes.Interface, excused func(*v1.Pod) bool) *judge {
	t.Helper()
	if excused == nil {
		excused = func(*v1.Pod) bool { return false }
	}
	j := &judge{
		namespace: "default", gpus: map[string]judged{}, client: client, excused: excused, pods: map[types.UID]*v1.Pod{},
		committed: map[string]sum{}, observed: map[string]map[types.UID]bool{}, given: map[string]int64{},
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		var list []struct {
			UUID        string
			MemoryBytes int64
		}
		if err := json.Unmarshal([]byte(n.Annotations["berth.dev/inventory"]), &list); err != nil {
			continue // a node without GPUs
		}
		for _, g := range list {
			j.gpus[g.UUID] = judged{n.Name, g.MemoryBytes}
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { j.follow(ctx); close(done) }()
	t.Cleanup(func() {
		stop()
		<-done
		j.mu.Lock()
		defer j.mu.Unlock()
		t.Logf("judged %d events of pods", j.events)
		if j.verdict != "" {
			t.Error(j.verdict)
		}
	})
	return j
}

// use gives the judge a client of an API server that was started anew.
func (j *judge) use(client kubernetes.Interface) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.client = client
}

// api is the client of the API server as it runs now.
func (j *judge) api() kubernetes.Interface {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.client
}

// follow lists and watches until ctx ends.
func (j *judge) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if err := j.once(ctx, j.api()); err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// once lists, and watches until the watch ends.
func (j *judge) once(ctx context.Context, client kubernetes.Interface) error {
	pods := client.CoreV1().Pods(j.namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	there := map[types.UID]bool{}
	for i := range list.Items {
		there[list.Items[i].UID] = true
	}
	j.mu.Lock()
	for _, p := range slices.Collect(maps.Values(j.pods)) {
		if !there[p.UID] {
			j.saw(p, nil)
		}
	}
	for i := range list.Items { // a list is one moment: take off all that has changed before what came
		j.add(j.pods[list.Items[i].UID], -1)
		delete(j.pods, list.Items[i].UID)
	}
	for i := range list.Items {
		j.saw(nil, &list.Items[i])
	}
	j.mu.Unlock()
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		p, ok := e.Object.(*v1.Pod)
		if !ok {
			return fmt.Errorf("the watch of pods ended: %v", e.Object)
		}
		j.mu.Lock()
		if e.Type == watch.Deleted {
			j.saw(p, nil)
		} else {
			j.saw(nil, p)
		}
		j.mu.Unlock()
	}
	return nil
}

// saw takes in that a pod is as now says, or is gone, with mu held.
func (j *judge) saw(gone, now *v1.Pod) {
	j.events++
	if gone != nil {
		j.add(j.pods[gone.UID], -1)
		delete(j.pods, gone.UID)
		return
	}
	j.add(j.pods[now.UID], -1)
	j.pods[now.UID] = now
	j.add(now, +1)
}

// ended reports whether a pod has let go of its devices.
func ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// add counts what a pod has, or takes it off, and judges, with mu held.
func (j *judge) add(p *v1.Pod, sign int64) {
	if p == nil {
		return
	}
	if sign > 0 && p.Status.Phase == v1.PodFailed && p.DeletionTimestamp == nil && !j.excused(p) {
		j.rule("pod %s failed: %s: %s", p.Name, p.Status.Reason, p.Status.Message)
	}
	if p.Spec.NodeName == "" || ended(p) {
		return
	}
	named := map[string]bool{}
	list, err := commitment(p)
	if sign > 0 && (err != nil || len(list) == 0) && asksForGPU(p) && !j.excused(p) {
		j.rule("pod %s is bound to %s and its devices are %q", p.Name, p.Spec.NodeName, p.Annotations["berth.dev/devices"])
	}
	for _, d := range list {
		named[d.UUID] = true
		g, s := j.gpus[d.UUID], j.committed[d.UUID]
		s.milli, s.bytes = s.milli+sign*d.MilliGPU, s.bytes+sign*d.MemoryBytes
		j.committed[d.UUID] = s
		switch {
		case sign < 0:
		case g.node != p.Spec.NodeName:
			j.rule("pod %s is bound to %s with GPU %s, which is on %q", p.Name, p.Spec.NodeName, d.UUID, g.node)
		case s.milli > 1000 || s.bytes > g.size && d.MemoryBytes < g.size: // a share of a GPU's time has all its memory
			j.rule("GPU %s of %s: %d milli-GPUs and %d bytes of %d are committed, with pod %s", d.UUID, g.node, s.milli, s.bytes, g.size, p.Name)
		}
	}
	for _, id := range devices(p) {
		j.hold(p, id, sign, named)
	}
}

// hold counts one device that a node says it gave to a pod.
func (j *judge) hold(p *v1.Pod, id string, sign int64, named map[string]bool) {
	uuid, _, gib := sharing.ParseID(id)
	if j.observed[id] == nil {
		j.observed[id] = map[types.UID]bool{}
	}
	j.given[uuid] += sign * gib
	if sign < 0 {
		delete(j.observed[id], p.UID)
		return
	}
	j.observed[id][p.UID] = true
	switch {
	case len(j.observed[id]) > 1:
		j.rule("device %s was given to %d pods, %s last", id, len(j.observed[id]), p.Name)
	case j.given[uuid]<<30 > j.gpus[uuid].size:
		j.rule("GPU %s: its node gave out %d GiB of %d bytes, to pod %s last", uuid, j.given[uuid], j.gpus[uuid].size, p.Name)
	case len(named) > 0 && !named[uuid]:
		j.rule("pod %s: %v are committed, and its node gave %s", p.Name, slices.Sorted(maps.Keys(named)), id)
	}
}

func (j *judge) rule(format string, args ...any) {
	if j.verdict == "" {
		j.verdict = fmt.Sprintf("event %d: ", j.events) + fmt.Sprintf(format, args...)
	}
}

// check fails the test at once where there is a verdict.
func (j *judge) check(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.verdict != "" {
		t.FailNow() // the cleanup says why
	}
}

// count says how many pods pass, as of the last event.
func (j *judge) count(pass func(*v1.Pod) bool) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, p := range j.pods {
		if pass(p) {
			n++
		}
	}
	return n
}

func running(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil }

// committedGPU is one device in the annotation berth.dev/devices.
type committedGPU struct {
	UUID        string
	MilliGPU    int64
	MemoryBytes int64
}

// commitment reads the committed devices of a pod's containers.
func commitment(p *v1.Pod) ([]committedGPU, error) {
	raw, ok := p.Annotations["berth.dev/devices"]
	if !ok {
		return nil, nil
	}
	var by map[string][]committedGPU
	if err := json.Unmarshal([]byte(raw), &by); err != nil {
		return nil, fmt.Errorf("read the devices of pod %s: %w", p.Name, err)
	}
	var out []committedGPU
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, by[name]...)
	}
	return out, nil
}

// asksForGPU reports whether a pod asks for one.
func asksForGPU(p *v1.Pod) bool {
	if p.Annotations["gpu-fraction"] != "" {
		return true
	}
	for _, c := range p.Spec.Containers {
		for name := range c.Resources.Limits {
			if name == "nvidia.com/gpu" || name == "nvidia.com/gpu-memory" {
				return true
			}
		}
	}
	return false
}
