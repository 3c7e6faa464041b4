package deviceplugin_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"berth.dev/berth/agent/deviceplugin/kubelettest"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/request"
)

// world is a node, its pods and who watches over them.
type world struct {
	t     *testing.T
	dir   string
	k     *kubelettest.Kubelet
	pods  *podFiles
	judge judge

	ran, refused, restarts, kills, waited atomic.Int64

	chaos sync.Mutex // one disturbance at a time
	agent *process

	bind sync.Mutex // held from the choice of devices until it is known

	mu     sync.Mutex
	ledger *sharing.Ledger // the scheduler's
}

func newWorld(t *testing.T) *world {
	dir := folder(t)
	for _, name := range []string{"pods", "cdi", "dp"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	gpus, err := churnGPUs()
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := sharing.NewLedger(gpus, gpu.Sharing{MIGStrategy: gpu.MIGMixed})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, k: start(t, filepath.Join(dir, "dp")), pods: &podFiles{dir: filepath.Join(dir, "pods")}, ledger: ledger}
	w.judge.holder = make(map[string]string)
	if w.agent, err = startAgent(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.agent.kill()
		raw, err := os.ReadFile(filepath.Join(dir, "agent.log"))
		for _, bad := range []string{"WARNING: DATA RACE", "panic:", "panicked"} {
			if err != nil || strings.Contains(string(raw), bad) {
				t.Errorf("the agent's log has %q (%v)", bad, err)
			}
		}
		if t.Failed() {
			t.Logf("the agent's log ends with:\n%s", raw[max(0, len(raw)-4000):])
		}
	})
	w.ready()
	return w
}

// ready waits until pods can be admitted.
func (w *world) ready() {
	err := w.k.Await(wait(w.t), func() bool {
		_, a, _ := w.k.Capacity(gpus)
		_, b, _ := w.k.Capacity(cut)
		return a == 6 && b == 14 && w.k.Serving(gpus) && w.k.Serving(cut)
	})
	if err != nil {
		w.t.Error(err)
	}
}

// disturb kills and restarts the kubelet, the agent, or both, while pods come
// and go.
func (w *world) disturb(n int) {
	w.chaos.Lock()
	defer w.chaos.Unlock()
	if n%3 != 1 {
		w.kills.Add(1)
		w.agent.kill()
	}
	if n%3 != 2 {
		w.restarts.Add(1)
		if err := w.k.Restart(); err != nil {
			w.t.Error(err)
		}
	}
	if n%3 != 1 {
		var err error
		if w.agent, err = startAgent(w.dir); err != nil {
			w.t.Error(err)
		}
	}
}

// pod makes a pod: counts has the devices of each of its containers, in order;
// the first of three is of an init container, whose devices the next one uses
// again.
func (w *world) pod(name, scheduler string, counts []int, res string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	pod.Spec.SchedulerName = scheduler
	for i, n := range counts {
		amount := v1.ResourceList{v1.ResourceName(res): *resource.NewQuantity(int64(n), resource.DecimalSI)}
		c := v1.Container{Name: fmt.Sprintf("c%d", i), Resources: v1.ResourceRequirements{Limits: amount, Requests: amount}}
		if len(counts) == 3 && i == 0 {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

// churn runs one pod, as often as it takes.
func (w *world) churn(rng *rand.Rand, n int) {
	res, counts := gpus, []int{1 + rng.IntN(2)}
	switch rng.IntN(4) {
	case 0:
		counts = []int{1, 1}
	case 1:
		counts = []int{1, 1, 1}
	case 2:
		res, counts = cut, []int{1 + rng.IntN(3), 1}
	}
	scheduler := ""
	if rng.IntN(2) == 0 {
		scheduler = "berth"
	}
	patience := wait(w.t)
	for try := 0; !w.t.Failed(); try++ {
		err := w.run(w.pod(fmt.Sprintf("p%d-%d", n, try), scheduler, counts, res))
		if err == nil {
			w.ran.Add(1)
			return
		}
		if !strings.Contains(err.Error(), "UnexpectedAdmissionError") || patience.Err() != nil {
			w.t.Errorf("pod %d: %v", n, err)
		}
		w.refused.Add(1)
		w.ready() // a plugin that has just registered has not sent its devices yet
	}
}

// run brings a pod to the node, starts its containers, restarts them, and takes
// it away again.
func (w *world) run(pod *v1.Pod) error {
	uid := string(pod.UID)
	committed, unlock, err := w.place(pod)
	defer unlock()
	if err != nil {
		return err
	}
	defer func() { // who waits for the devices waits for the kubelet's change
		w.judge.remove(uid)
		w.mu.Lock()
		w.ledger.Release(uid)
		w.mu.Unlock()
		if err := os.Remove(w.pods.path(uid)); err != nil {
			w.t.Error(err)
		}
		w.k.Remove(uid)
	}()
	if err := w.k.Admit(wait(w.t), kubeletPod(pod)); err != nil {
		return err
	}
	names := containers(pod)
	got := make(map[string][]string)
	for _, name := range names {
		if got[name], err = w.startContainer(uid, name); err != nil {
			return err
		}
		if want := committed[name]; committed != nil && !slices.Equal(got[name], want) {
			return fmt.Errorf("container %s of %s has %v, committed were %v", name, pod.Name, got[name], want)
		}
		if err := w.judge.hold(uid, got[name]); err != nil {
			return err
		}
	}
	if committed == nil { // the scheduler learns of it
		if err := w.learn(uid, got); err != nil {
			return err
		}
	}
	unlock()
	name := names[len(names)-1] // crashes, and starts again
	again, err := w.startContainer(uid, name)
	if err == nil && !slices.Equal(again, got[name]) {
		err = fmt.Errorf("container %s of %s had %v and has %v after a restart", name, pod.Name, got[name], again)
	}
	return err
}

// place commits devices to a pod of Berth's scheduler, or waits with everybody
// else until it is known what the kubelet gives it. unlock may be called twice.
func (w *world) place(pod *v1.Pod) (committed map[string][]string, unlock func(), err error) {
	parts := request.Parts(pod)
	for {
		changed := w.k.Changed()
		w.bind.Lock()
		devices, e := w.allocate(string(pod.UID), parts, pod.Spec.SchedulerName != "")
		if e == nil && pod.Spec.SchedulerName == "" {
			return nil, sync.OnceFunc(w.bind.Unlock), w.pods.write(pod)
		}
		if e == nil {
			defer w.bind.Unlock()
			return w.commit(pod, parts, devices)
		}
		w.bind.Unlock() // full: the next pod that ends makes room
		select {
		case <-changed:
		case <-wait(w.t).Done():
			return nil, func() {}, e
		}
	}
}

// allocate chooses devices, and keeps them if they are to be committed.
func (w *world) allocate(uid string, parts []sharing.Part, keep bool) ([][]sharing.Device, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	devices, err := w.ledger.Allocate(uid, parts)
	if !keep {
		w.ledger.Release(uid)
	}
	return devices, err
}

// commit binds a pod to devices.
func (w *world) commit(pod *v1.Pod, parts []sharing.Part, devices [][]sharing.Device) (map[string][]string, func(), error) {
	committed := make(map[string][]string)
	for i, part := range parts {
		for _, d := range devices[i] {
			committed[part.Name] = append(committed[part.Name], d.UUID)
		}
		slices.Sort(committed[part.Name])
	}
	text, err := commit.Commitment(parts, devices)
	if err != nil {
		return nil, func() {}, err
	}
	pod.Annotations = map[string]string{api.AnnotationDevices: text}
	return committed, func() {}, w.pods.write(pod)
}

// learn tells the scheduler what a pod without a commitment has.
func (w *world) learn(uid string, got map[string][]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ids := range got {
		if err := w.ledger.Restore(uid, ids); err != nil {
			return err
		}
	}
	return nil
}

// startContainer starts a container as a kubelet and a runtime do: what the
// CDI names say at that moment is what the container has. After an error the
// kubelet tries again, after a change or a while: also where a name says nothing, as
// a kubelet that has just started does not know that it has to ask
// PreStartContainer.
func (w *world) startContainer(uid, name string) ([]string, error) {
	ctx := wait(w.t)
	for {
		changed := w.k.Changed()
		var devices []string
		answers, err := w.k.StartContainer(ctx, uid, name)
		if err == nil {
			devices, err = w.resolve(answers)
		}
		if err == nil {
			return devices, nil
		}
		w.waited.Add(1)
		select {
		case <-changed:
		case <-time.After(time.Second): // the agent may have learnt something, of which the kubelet hears nothing
		case <-ctx.Done():
			return nil, err
		}
	}
}

// resolve reads the CDI specs of names, as a runtime does.
func (w *world) resolve(answers map[string]*v1beta1.ContainerAllocateResponse) ([]string, error) {
	var out []string
	for _, a := range answers {
		for _, d := range a.CdiDevices {
			name := strings.TrimPrefix(d.Name, api.CDIKind+"=n")
			raw, err := os.ReadFile(filepath.Join(w.dir, "cdi", "berth-alloc-"+name+".json"))
			if err != nil {
				return nil, fmt.Errorf("unresolvable CDI device %s: %w", d.Name, err)
			}
			var spec struct {
				Devices []struct{ ContainerEdits struct{ Env []string } }
			}
			if err := json.Unmarshal(raw, &spec); err != nil {
				return nil, err
			}
			for _, env := range spec.Devices[0].ContainerEdits.Env {
				if list, ok := strings.CutPrefix(env, "BERTH_DEVICES="); ok {
					out = append(out, strings.Split(list, ",")...)
				}
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// awaitNoSpecs waits until no CDI spec is left.
func (w *world) awaitNoSpecs() {
	awaitFile(w.t, filepath.Join(w.dir, "cdi", "any"), func(os.FileInfo, error) bool {
		left, err := filepath.Glob(filepath.Join(w.dir, "cdi", "*.json"))
		return err == nil && len(left) == 0
	})
}

func containers(pod *v1.Pod) []string {
	var out []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		out = append(out, c.Name)
	}
	return out
}

func kubeletPod(pod *v1.Pod) kubelettest.Pod {
	convert := func(list []v1.Container) (out []kubelettest.Container) {
		for _, c := range list {
			limits := make(map[string]int)
			for name, q := range c.Resources.Limits {
				limits[string(name)] = int(q.Value())
			}
			out = append(out, kubelettest.Container{Name: c.Name, Limits: limits})
		}
		return out
	}
	return kubelettest.Pod{
		UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
		Init: convert(pod.Spec.InitContainers), Containers: convert(pod.Spec.Containers),
	}
}

// judge knows which pod has which GPU or MIG device, from what containers see.
type judge struct {
	mu     sync.Mutex
	holder map[string]string // pod, by UUID
	most   int
}

func (j *judge) hold(pod string, uuids []string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, uuid := range uuids {
		if other, ok := j.holder[uuid]; ok && other != pod {
			return fmt.Errorf("%s was given to %s while %s has it", uuid, pod, other)
		}
		j.holder[uuid] = pod
	}
	j.most = max(j.most, len(j.holder))
	return nil
}

func (j *judge) remove(pod string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for uuid, p := range j.holder {
		if p == pod {
			delete(j.holder, uuid)
		}
	}
}
