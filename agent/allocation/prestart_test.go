package allocation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
)

func product(t testing.TB, name string, n int) []gpu.GPU {
	t.Helper()
	p, ok := gpu.Find(name)
	if !ok {
		t.Fatalf("no product %s", name)
	}
	return gpu.New("n1", p, n)
}

// runs starts a container and wants it to see GPUs by index, such as "2 3".
func (w *world) runs(p *v1.Pod, container, want string) {
	w.t.Helper()
	got, err := w.run(p, container)
	if err != nil || got != want {
		w.t.Errorf("container %s of pod %s sees GPUs %q, %v; want %q", container, p.Name, got, err, want)
	}
}

// refused starts a container and wants it to be refused with a text.
func (w *world) refused(p *v1.Pod, container, reason, text string) {
	w.t.Helper()
	before := w.node.Refusals()[reason]
	_, err := w.run(p, container)
	if err == nil || !strings.Contains(err.Error(), text) || !strings.HasPrefix(err.Error(), "berth: ") {
		w.t.Errorf("container %s of pod %s: %v; want a refusal with %q", container, p.Name, err, text)
	}
	if got := w.node.Refusals()[reason]; got != before+1 {
		w.t.Errorf("refusals by reason %s went from %d to %d, want one more; all: %v", reason, before, got, w.node.Refusals())
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestAPodGetsTheDeviceThatWasCommittedAndNotTheKubeletsPick(t *testing.T) {
	w := newWorld(t, product(t, a100, 4)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(3)}})
	w.must(w.admit(p, "gpu-1"))
	if _, _, err := w.sees(p, "c"); err == nil {
		t.Error("the container could start before PreStart")
	}
	w.runs(p, "c", "3")
	_, env, err := w.sees(p, "c")
	want := map[string]string{"NVIDIA_VISIBLE_DEVICES": "void", "DRIVER": "570.124.06", "BERTH_DEVICES": w.uuid(3)}
	if diff := cmp.Diff(want, env); diff != "" || err != nil {
		t.Errorf("environment (-want +got), %v:\n%s", err, diff)
	}
	if n := w.node.Differences(); n != 1 {
		t.Errorf("%d differences are counted, want 1", n)
	}
	h := w.node.Holders()
	if len(h) != 1 || len(h[0].Picked) != 1 || h[0].Picked[0] != w.uuid(1) || h[0].PodUID != "uid-p" {
		t.Errorf("holders are %+v, want the kubelet's pick in Picked", h)
	}
	// The id of the kubelet's pick stands for GPU 3 now: when GPU 1 fails, it
	// is another's.
	w.healthy[w.uuid(1)] = false
	w.set()
	for _, d := range w.node.Offers()[whole] {
		if d.Healthy != (d.ID != "gpu-3") {
			t.Errorf("ID %s is healthy: %v", d.ID, d.Healthy)
		}
	}
}

// uuid is that of the GPU of an index.
func (w *world) uuid(i int) string { return w.snapshot.GPUs[i].UUID }

func TestInitSidecarAndContainersGetWhatIsCommittedToEach(t *testing.T) {
	w := newWorld(t, product(t, a100, 8)).start()
	always := v1.ContainerRestartPolicyAlways
	p := pod("p", asks("a", whole, 1), asks("b", whole, 2))
	p.Spec.InitContainers = []v1.Container{asks("init", whole, 1), asks("side", whole, 1)}
	p.Spec.InitContainers[1].RestartPolicy = &always
	p = commits(p, map[string][]string{
		"init": {w.uuid(7)}, "side": {w.uuid(5)}, "a": {w.uuid(6)}, "b": {w.uuid(2), w.uuid(0)},
	})
	w.must(w.admit(p))
	w.runs(p, "init", "7")
	w.runs(p, "side", "5")
	w.runs(p, "a", "6")
	w.runs(p, "b", "0 2")
	w.runs(p, "init", "7") // a sandbox that is made anew runs it again
	if got := w.holders(); got != "p/a 6*, p/b 2 0*, p/init 7*, p/side 5*" {
		t.Errorf("holders are %s", got)
	}
	w.start()
	w.runs(p, "b", "0 2") // a restart of the container after one of the agent
	w.end(p)
	if got := w.holders(); got != "" {
		t.Errorf("after its end the pod holds %s", got)
	}
	if list := w.specs(); len(list) > 0 {
		t.Errorf("spec files stay: %v", list)
	}
}

func TestAContainerUsesAgainWhatAnInitContainerHad(t *testing.T) {
	w := newWorld(t, product(t, a100, 4)).start()
	p := pod("p", asks("a", whole, 1))
	p.Spec.InitContainers = []v1.Container{asks("init", whole, 1)}
	p = commits(p, map[string][]string{"init": {w.uuid(2)}, "a": {w.uuid(2)}})
	w.must(w.admit(p))
	w.runs(p, "init", "2")
	w.runs(p, "a", "2")
	q := pod("q", asks("a", whole, 1))
	q.Spec.InitContainers = []v1.Container{asks("init", whole, 1)}
	w.must(w.admit(q))
	first, err := w.run(q, "init")
	w.must(err)
	w.runs(q, "a", first)
	if n := len(w.node.Ledger()); n != 2 {
		t.Errorf("%d devices are held, want one for each pod", n)
	}
}

func TestABurstOfSixteenPods(t *testing.T) {
	gpus := append(product(t, a100, 8), product(t, "Tesla T4", 8)...)
	for i := range gpus {
		gpus[i].Index = i
		gpus[i].UUID = fmt.Sprintf("GPU-%d", i)
		gpus[i].MemoryBytes = 40 << 30
	}
	w := newWorld(t, gpus).start()
	var pods []*v1.Pod
	for i := range 16 {
		p := commits(pod(fmt.Sprintf("p%02d", i), asks("c", whole, 1)), map[string][]string{"c": {fmt.Sprintf("GPU-%d", (i*7+3)%16)}})
		w.must(w.admit(p))
		pods = append(pods, p)
	}
	var starts sync.WaitGroup
	errs := make([]error, len(pods))
	for i, p := range pods {
		starts.Go(func() {
			for _, h := range w.of(p, "c") {
				errs[i] = w.node.PreStart(context.Background(), h.resource, w.held[h].ids)
			}
		})
	}
	starts.Wait()
	w.must(errors.Join(errs...))
	for i, p := range pods {
		got, _, err := w.sees(p, "c")
		if want := fmt.Sprint((i*7 + 3) % 16); got != want || err != nil {
			t.Errorf("pod %s sees %s, %v; want %s", p.Name, got, err, want)
		}
	}
}

func TestACommitmentThatCannotBeKeptKeepsTheContainerFromStarting(t *testing.T) {
	const forged = "a device that another pod holds"
	for _, tt := range []struct {
		name         string
		do           func(*world, *v1.Pod) *v1.Pod
		reason, text string
	}{
		{
			"no commitment where Berth's scheduler has bound it",
			func(_ *world, p *v1.Pod) *v1.Pod { delete(p.Annotations, api.AnnotationDevices); return p },
			notice.ReasonMissing, "pod default/p requests GPUs but has no devices committed in berth.dev/devices: berth-scheduler commits them when it binds a pod",
		},
		{
			"an annotation that is no JSON",
			func(_ *world, p *v1.Pod) *v1.Pod { p.Annotations[api.AnnotationDevices] = "GPU-1"; return p },
			notice.ReasonMalformed, "pod default/p: read annotation berth.dev/devices",
		},
		{
			"more devices than the container asks for",
			func(w *world, p *v1.Pod) *v1.Pod {
				return commits(p, map[string][]string{"c": {w.uuid(1), w.uuid(2)}})
			},
			notice.ReasonMalformed, "2 devices are named for c, which asks for 1; delete the pod to have it rescheduled",
		},
		{
			"a container that is not there",
			func(w *world, p *v1.Pod) *v1.Pod { return commits(p, map[string][]string{"d": {w.uuid(1)}}) },
			notice.ReasonMalformed, "0 devices are named for c, which asks for 1",
		},
		{
			forged,
			func(w *world, p *v1.Pod) *v1.Pod { return commits(p, map[string][]string{"c": {w.uuid(0)}}) },
			notice.ReasonTaken, "it is held by pod default/first",
		},
		{
			"a device of another node",
			func(_ *world, p *v1.Pod) *v1.Pod {
				return commits(p, map[string][]string{"c": {"GPU-elsewhere"}})
			},
			notice.ReasonUnknown, "device GPU-elsewhere of nvidia.com/gpu: this node does not offer it",
		},
		{
			"a part of a GPU for a pod that asks for all of it",
			func(w *world, p *v1.Pod) *v1.Pod {
				return commits(p, map[string][]string{"c": {w.uuid(1) + " 500 21474836480"}})
			},
			notice.ReasonMalformed, "was committed in berth.dev/devices with 500 milli-GPUs and 21474836480 bytes, and this node offers it with 1000 and 42949672960",
		},
		{
			"a GPU that has failed",
			func(w *world, p *v1.Pod) *v1.Pod {
				w.healthy[w.uuid(1)] = false
				w.set()
				return p
			},
			notice.ReasonUnhealthy, "committed in berth.dev/devices, is unhealthy",
		},
		{
			"a pod that nobody knows",
			func(w *world, p *v1.Pod) *v1.Pod { w.pods.remove(string(p.UID), true); return p },
			notice.ReasonPodUnknown, "which is not a pod of this node",
		},
		{
			"pods that cannot be read",
			func(w *world, p *v1.Pod) *v1.Pod { w.pods.err = errors.New("connection refused"); return p },
			notice.ReasonPodUnknown, "pod uid-p cannot be read: connection refused",
		},
		{
			"a driver that does not answer",
			func(w *world, p *v1.Pod) *v1.Pod {
				w.options.DriverCDI = func(context.Context) ([]byte, error) { return nil, errors.New("NVML is gone") }
				w.start()
				return p
			},
			notice.ReasonDriver, "ask the driver how containers reach its GPUs: NVML is gone",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, product(t, a100, 4)).start()
			first := commits(pod("first", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(0)}})
			w.must(w.admit(first))
			w.runs(first, "c", "0")
			p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
			w.must(w.admit(p))
			changed := tt.do(w, p.DeepCopy())
			if w.pods.now["uid-p"] != nil {
				w.pods.put(changed, true)
			}
			w.refused(p, "c", tt.reason, tt.text)
			w.refused(p, "c", tt.reason, tt.text) // the kubelet's next try
			if n := len(w.node.Ledger()); n != 1 {
				t.Errorf("%d devices are held, want the first pod's alone", n)
			}
			if list := w.specs(); len(list) != 1 {
				t.Errorf("spec files are %v, want the first pod's alone", list)
			}
			// What was wrong is put right, and the container starts automatically.
			w.pods.err, w.healthy[w.uuid(1)] = nil, true
			w.options.DriverCDI = func(context.Context) ([]byte, error) { return driverCDI(w.snapshot) }
			if tt.reason == notice.ReasonDriver {
				w.start()
			}
			w.set()
			w.pods.put(p, true)
			w.runs(p, "c", "1")
			w.runs(first, "c", "0")
		})
	}
}

func TestALateCommitmentIsPickedUpThoughTheWatchIsBehind(t *testing.T) {
	w := newWorld(t, product(t, a100, 4)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(2)}})
	bare := p.DeepCopy()
	bare.Annotations = nil
	w.must(w.admit(bare))
	w.refused(bare, "c", notice.ReasonMissing, "has no devices committed")
	w.pods.put(p, false)
	w.runs(p, "c", "2")
}

func TestAPodThatTheWatchHasNotShownYetIsAskedFor(t *testing.T) {
	w := newWorld(t, product(t, a100, 4)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(2)}})
	w.pods.put(p, false)
	w.must(w.admitOnly(p))
	w.runs(p, "c", "2")
	// A list from before the pod came does not end it.
	w.must(w.node.Tidy(context.Background()))
	if got := w.holders(); got != "p/c 2*" {
		t.Errorf("holders are %q, want the pod that runs", got)
	}
}

func TestADeviceOfAPodThatHasEndedUnnoticedIsGivenAtOnce(t *testing.T) {
	w := newWorld(t, product(t, a100, 1)).start()
	first := commits(pod("first", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(0)}})
	w.must(w.admit(first))
	w.runs(first, "c", "0")
	w.pods.remove("uid-first", false)
	w.forget("uid-first")
	next := commits(pod("next", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(0)}})
	w.must(w.admit(next))
	w.runs(next, "c", "0")
}

func TestAPodsCommitmentCannotBeExchangedOnceItHasStarted(t *testing.T) {
	w := newWorld(t, product(t, a100, 4)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(2)}})
	w.must(w.admit(p))
	w.runs(p, "c", "2")
	w.pods.put(commits(p, map[string][]string{"c": {w.uuid(3)}}), true)
	w.refused(p, "c", notice.ReasonMalformed, "have changed since it first started")
	bare := p.DeepCopy()
	bare.Annotations = nil
	w.pods.put(bare, true)
	w.refused(p, "c", notice.ReasonMalformed, "have changed since it first started")
	w.pods.put(p, true)
	w.runs(p, "c", "2")
}

func TestAContainerDoesNotStartAgainOnAGPUThatHasFailed(t *testing.T) {
	w := newWorld(t, product(t, a100, 4)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(2)}})
	w.must(w.admit(p))
	w.runs(p, "c", "2")
	w.healthy[w.uuid(2)] = false
	w.set()
	w.refused(p, "c", notice.ReasonUnhealthy, "is unhealthy: the container starts automatically once it is healthy")
	w.healthy[w.uuid(2)] = true
	w.set()
	w.runs(p, "c", "2")
}

func TestADiskThatIsFullIsToldAndLeavesNothing(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(p))
	w.node.FailWrites(errors.New("no space left on device"))
	w.refused(p, "c", notice.ReasonWrite, "container c of pod default/p: no space left on device")
	if len(w.node.Ledger()) > 0 || len(w.specs()) > 0 {
		t.Errorf("held: %v, files: %v", w.node.Ledger(), w.specs())
	}
	w.node.FailWrites(nil)
	w.runs(p, "c", "1")
}

// specs lists the folder of CDI specs, without the lock.
func (w *world) specs() []string {
	w.t.Helper()
	return dirNames(w.t, w.dir)
}
