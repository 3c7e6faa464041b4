package devices_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/scheduler/devices"
)

// rig is a scheduler as small as can be around Berth's plugins: a queue with what
// PreEnqueue holds back, one scheduling cycle at a time, pods that wait in Permit,
// and bindings that arrive at once. It holds, at every binding, that no device is
// given twice.
type rig struct {
	*handle
	t       *testing.T
	devs    *devices.Plugin
	gangs   *devices.Gangs
	plans   *devices.GangPlans
	lines   *devices.Waiting
	pods    map[types.UID]*v1.Pod // as the API has them
	active  []types.UID
	out     map[types.UID]string // pods outside of the queue, and why
	forced  map[types.UID]bool   // activated while in a cycle
	inside  types.UID            // the pod in the cycle
	permit  map[types.UID]*waits
	refuse  func(pod *v1.Pod, node string) bool             // a filter of others
	unbind  func(pod *v1.Pod) error                         // the API server's answer to a binding
	answer  func(b *v1.Binding) error                       // the same, by what the binding says
	blind   bool                                            // the API server gives no pod
	lose    func(pod *v1.Pod) error                         // what comes in place of the answer to a binding that was done
	boundTo func(pod *v1.Pod, node string)                  // PostBind; nil is none
	post    func(s *state, pod *v1.Pod, status *fwk.Status) // in place of the PostFilters that are here
	config  *rest.Config                                    // to read what counts gangs; nil cannot
	tried   map[types.UID]int
	said    map[string]string // conditions that were patched, by pod
	told    []string          // events

	inLines bool          // pods that ask for the same wait in a line
	silent  bool          // conditions that are patched are not seen
	news    chan struct{} // if not nil: told that there is something in calls

	mu    sync.Mutex
	calls []func() // what timers of the plugins want; run does it
}

// waits is a pod in Permit.
type waits struct {
	fwk.WaitingPod
	pod    *v1.Pod
	node   string
	state  *state
	answer string // "" waits, "go", or why not
}

func (w *waits) GetPod() *v1.Pod { return w.pod }
func (w *waits) Allow(string)    { w.answer = "go" }
func (w *waits) Reject(_, msg string) bool {
	w.answer = "no: " + msg
	return true
}

// newRig makes a rig of nodes with so many T4 each.
func newRig(t *testing.T, nodes ...int) *rig {
	t.Helper()
	r := &rig{
		handle: &handle{}, t: t, pods: map[types.UID]*v1.Pod{}, out: map[types.UID]string{}, forced: map[types.UID]bool{},
		permit: map[types.UID]*waits{}, tried: map[types.UID]int{}, said: map[string]string{},
		refuse: func(*v1.Pod, string) bool { return false }, unbind: func(*v1.Pod) error { return nil },
		answer: func(*v1.Binding) error { return nil }, lose: func(*v1.Pod) error { return nil },
	}
	for i, n := range nodes {
		r.nodes = append(r.nodes, &info{node: t4Node(t, fmt.Sprint("n", i), n, gpu.Sharing{}), generation: 1})
	}
	c := client(r.bind, func(name string) *v1.Pod { return r.pods[types.UID(name)] }).(*fake.Clientset)
	c.PrependReactor("patch", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		patch := a.(k8stesting.PatchAction)
		var what v1.Pod
		if err := json.Unmarshal(patch.GetPatch(), &what); err != nil || len(what.Status.Conditions) != 1 {
			t.Errorf("patch of pod %s: %s: %v", patch.GetName(), patch.GetPatch(), err)
			return true, &v1.Pod{}, nil
		}
		r.later(func() {
			if r.pods[types.UID(patch.GetName())] != nil && !r.silent {
				r.update(types.UID(patch.GetName()), func(p *v1.Pod) { p.Status.Conditions = what.Status.Conditions })
			}
			r.said[patch.GetName()] = what.Status.Conditions[0].Message
		})
		return true, &v1.Pod{}, nil
	})
	c.PrependReactor("get", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		return r.blind, nil, errRefused
	})
	r.client = c
	r.start()
	return r
}

// start makes a scheduler that has seen nothing yet but what the API has.
func (r *rig) start() {
	r.t.Helper()
	r.handler, r.active, r.permit, r.calls = nil, nil, map[types.UID]*waits{}, nil
	makers := devices.Plugins()
	made := func(name string) fwk.Plugin {
		p, err := makers[name](r.t.Context(), nil, r)
		if err != nil {
			r.t.Fatal(err)
		}
		return p
	}
	r.devs, r.gangs, r.plans = made(devices.Name).(*devices.Plugin), made(devices.GangsName).(*devices.Gangs), made(devices.GangPlansName).(*devices.GangPlans)
	r.lines = made(devices.WaitingName).(*devices.Waiting)
	for _, uid := range slices.Sorted(maps.Keys(r.pods)) {
		r.meet(r.pods[uid])
	}
}

func (r *rig) ProfileName() string                       { return "default-scheduler" }
func (r *rig) KubeConfig() *rest.Config                  { return r.config }
func (r *rig) EventRecorder() events.EventRecorderLogger { return recorder{r: r} }
func (r *rig) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if w := r.permit[uid]; w != nil {
		return w
	}
	return nil
}

type recorder struct {
	events.EventRecorderLogger
	r *rig
}

func (e recorder) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	e.r.later(func() { e.r.told = append(e.r.told, text) })
}

// later has run do something.
func (r *rig) later(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, do)
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// drain does what is to be done.
func (r *rig) drain() {
	for {
		r.mu.Lock()
		calls := r.calls
		r.calls = nil
		r.mu.Unlock()
		if len(calls) == 0 {
			return
		}
		for _, do := range calls {
			do()
		}
	}
}

// Activate implements fwk.PodActivator.
func (r *rig) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	r.later(func() { r.activate(pods) })
}

func (r *rig) activate(pods map[string]*v1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		uid := pods[name].UID
		if _, there := r.out[uid]; there {
			r.enqueue(uid)
		} else if uid == r.inside {
			r.forced[uid] = true
		}
	}
}

// enqueue lets a pod into the queue if PreEnqueue does.
func (r *rig) enqueue(uid types.UID) {
	if status := r.gangs.PreEnqueue(r.t.Context(), r.pods[uid]); !status.IsSuccess() {
		r.out[uid] = status.Message()
		return
	}
	if status := r.lines.PreEnqueue(r.t.Context(), r.pods[uid]); r.inLines && !status.IsSuccess() {
		r.out[uid] = status.Message()
		return
	}
	delete(r.out, uid)
	r.active = append(r.active, uid)
}

// meet tells of a pod as the watch does, and queues it.
func (r *rig) meet(pod *v1.Pod) {
	r.handler.OnAdd(pod, false)
	if pod.Spec.NodeName == "" {
		r.enqueue(pod.UID)
	}
}

// add creates pods.
func (r *rig) add(pods ...*v1.Pod) {
	for _, p := range pods {
		r.pods[p.UID] = p
		delete(r.gone, p.Name)
		r.meet(p)
		r.drain()
	}
}

// update changes a pod in the API.
func (r *rig) update(uid types.UID, change func(p *v1.Pod)) {
	old := r.pods[uid]
	now := old.DeepCopy()
	change(now)
	r.pods[uid] = now
	r.handler.OnUpdate(old, now)
}

// remove deletes a pod, and asks those outside of the queue what they think of it.
func (r *rig) remove(name string) {
	gone := r.pods[types.UID(name)]
	delete(r.pods, gone.UID)
	delete(r.out, gone.UID)
	r.active = slices.DeleteFunc(r.active, func(uid types.UID) bool { return uid == gone.UID })
	if w := r.permit[gone.UID]; w != nil {
		w.answer = "no: deleted"
	}
	if gone.Spec.NodeName != "" {
		r.leave(gone.UID, gone.Spec.NodeName)
	}
	r.deletes(gone)
	r.happened(gone, nil)
}

// happened asks the hints.
func (r *rig) happened(old, now any) {
	registered, err := r.plans.EventsToRegister(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	inLine := map[string]bool{}
	if r.inLines {
		for _, name := range slices.Concat(devices.Lines(r.devs)...) {
			inLine[name] = true
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(r.out)) {
		if inLine[string(uid)] { // the plugin that chooses devices has refused it, not that of gangs
			r.enqueue(uid)
		} else if hint, _ := registered[0].QueueingHintFn(klog.Background(), r.pods[uid], old, now); hint == fwk.Queue {
			r.enqueue(uid)
		}
	}
}

// enter, change and leave change the pods of a NodeInfo.
func (r *rig) enter(pod *v1.Pod, node string) {
	for i, n := range r.nodes {
		if n.node.Name == node {
			others := slices.DeleteFunc(slices.Clone(n.pods), func(p *v1.Pod) bool { return p.UID == pod.UID })
			r.nodes[i] = &info{node: n.node, pods: append(others, pod), generation: n.generation + 1}
		}
	}
}

// change replaces a pod in its NodeInfo.
func (r *rig) change(pod *v1.Pod) {
	for i, n := range r.nodes {
		if n.node.Name != pod.Spec.NodeName {
			continue
		}
		pods := slices.Clone(n.pods)
		for k := range pods {
			if pods[k].UID == pod.UID {
				pods[k] = pod
			}
		}
		r.nodes[i] = &info{node: n.node, pods: pods, generation: n.generation + 1}
	}
}

func (r *rig) leave(uid types.UID, node string) {
	for i, n := range r.nodes {
		if n.node.Name == node {
			r.nodes[i] = &info{node: n.node, generation: n.generation + 1, pods: slices.DeleteFunc(slices.Clone(n.pods), func(p *v1.Pod) bool { return p.UID == uid })}
		}
	}
}

// bind is the API server's side of a binding.
func (r *rig) bind(b *v1.Binding) error {
	if err := r.unbind(r.pods[b.UID]); err != nil {
		return err
	}
	if err := r.answer(b); err != nil {
		return err
	}
	for _, p := range r.pods {
		for _, uuid := range uuids(b.Annotations[api.AnnotationDevices]) {
			if !strings.Contains(b.Annotations[api.AnnotationDevices], `"milliGPU":1000`) {
				continue // shares may have neighbors
			}
			if p.Spec.NodeName != "" && slices.Contains(uuids(p.Annotations[api.AnnotationDevices]), uuid) {
				r.t.Errorf("pod %s gets device %s of pod %s", b.Name, uuid, p.Name)
			}
		}
	}
	r.update(b.UID, func(p *v1.Pod) {
		p.Spec.NodeName = b.Target.Name
		p.Annotations = maps.Clone(p.Annotations)
		p.Annotations[api.AnnotationDevices] = b.Annotations[api.AnnotationDevices]
	})
	r.enter(r.pods[b.UID], b.Target.Name)
	return r.lose(r.pods[b.UID])
}

// uuids are the devices of a commitment.
func uuids(note string) []string {
	var out []string
	for _, part := range strings.Split(note, `"uuid":"`)[1:] {
		uuid, _, _ := strings.Cut(part, `"`)
		out = append(out, uuid)
	}
	return out
}

// bound lists the bound pods of a gang, as "pod@node".
func (r *rig) bound(gang string) []string {
	var out []string
	for _, p := range r.pods {
		if p.Annotations[api.AnnotationGang] == gang && p.Spec.NodeName != "" {
			out = append(out, p.Name+"@"+p.Spec.NodeName)
		}
	}
	slices.Sort(out)
	return out
}

// members makes n pods of a gang that needs least of them, with GPUs as in
// asking.
func gangOf(gang string, n, least int, wants ...string) []*v1.Pod {
	var out []*v1.Pod
	for i := range n {
		p := asking(fmt.Sprint(gang, "-", i), "", wants...)
		p.Spec.SchedulerName = "default-scheduler"
		p.Annotations = map[string]string{api.AnnotationGang: gang, api.AnnotationGangMinCount: strconv.Itoa(least)}
		p.CreationTimestamp = metav1.NewTime(time.Unix(1e9, 0))
		out = append(out, p)
	}
	return out
}

var errRefused = errors.New("refused")
