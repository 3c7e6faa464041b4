package allocation_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/allocation"
	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// offer counts IDs of a resource: all, healthy, and healthy ones that no pod
// has.
func (w *world) offer(resource string) (all, healthy, free int) {
	for _, d := range w.node.Offers()[resource] {
		if all++; d.Healthy {
			healthy++
		}
	}
	for _, id := range w.node.Placeholders(resource) {
		for _, d := range w.node.Offers()[resource] {
			if d.ID == id.Name && d.Healthy && !id.Held {
				free++
			}
		}
	}
	return all, healthy, free
}

func (w *world) offers(resource string, all, healthy, free int) {
	w.t.Helper()
	a, h, f := w.offer(resource)
	if a != all || h != healthy || f != free {
		w.t.Errorf("%s has %d IDs, %d healthy, %d of these free; want %d, %d, %d", resource, a, h, f, all, healthy, free)
	}
}

func slicing(w *world, n int) {
	w.settings.Strategy, w.settings.Replicas = gpu.SharingTimeSlicing, map[string]int{whole: n}
	if n < 2 {
		w.settings.Strategy, w.settings.Replicas = gpu.SharingNone, nil
	}
}

func TestPodsKeepTheirDevicesWhenTheConfigurationChanges(t *testing.T) {
	w := newWorld(t, product(t, a100, 2))
	slicing(w, 4)
	w.start()
	share := func(name string, gpu int) *v1.Pod {
		p := commits(pod(name, asks("c", whole, 1)), map[string][]string{"c": {w.uuid(gpu) + " 250 42949672960"}})
		w.must(w.admit(p))
		w.runs(p, "c", itoa(int64(gpu)))
		return p
	}
	a, b, c := share("a", 0), share("b", 0), share("c", 0)
	w.offers(whole, 8, 8, 5)
	// Two shares for three pods: the third keeps what it has, and nobody else
	// comes to that GPU.
	slicing(w, 2)
	w.set()
	w.offers(whole, 5, 5, 2)
	w.start()
	w.offers(whole, 5, 5, 2)
	w.runs(c, "c", "0")
	w.end(a)
	w.offers(whole, 4, 4, 2)
	// Whole GPUs: two pods are on one.
	slicing(w, 1)
	w.set()
	w.offers(whole, 3, 3, 1)
	other := commits(pod("other", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(0)}})
	w.must(w.admit(other))
	w.refused(other, "c", notice.ReasonTaken, "it is held by pod default/")
	w.end(b)
	w.refused(other, "c", notice.ReasonTaken, "it is held by pod default/c")
	w.runs(c, "c", "0")
	w.end(c)
	w.runs(other, "c", "0")
	// A whole GPU that is shared now: all of its shares are the pod's.
	slicing(w, 4)
	w.set()
	w.offers(whole, 8, 5, 4)
	w.end(other)
	w.offers(whole, 8, 8, 8)
}

func TestAResourceThatIsRenamedStaysWhileAPodHasIt(t *testing.T) {
	w := newWorld(t, product(t, a100, 2))
	w.start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(p))
	w.runs(p, "c", "1")
	slicing(w, 2)
	w.settings.RenameByDefault = true
	w.set()
	w.offers(whole, 1, 1, 0)
	w.offers(whole+".shared", 4, 2, 2)
	w.runs(p, "c", "1")
	w.end(p)
	if _, there := w.node.Offers()[whole]; there {
		t.Error("the resource is still offered")
	}
	w.offers(whole+".shared", 4, 4, 4)
}

func TestAConfigurationThatCannotBeOfferedChangesNothing(t *testing.T) {
	w := newWorld(t, product(t, "Tesla T4", 2)).start()
	s := w.settings.Clone()
	s.Strategy, s.Replicas = gpu.SharingMPS, map[string]int{whole: 100}
	err := w.node.SetGPUs(w.snapshot, nil, s)
	if err == nil || !strings.Contains(err.Error(), "maximum allowed replicas exceeded: 100 > 48") {
		t.Errorf("SetGPUs: %v", err)
	}
	w.offers(whole, 2, 2, 2)
}

func TestAGPUThatIsLostAndComesBack(t *testing.T) {
	w := newWorld(t, product(t, a100, 3)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(p, "gpu-0"))
	w.runs(p, "c", "1")
	full := w.snapshot
	// Taken out: its ID is the pod's and unhealthy; the others are well.
	w.snapshot = nvml.Snapshot{Driver: full.Driver, GPUs: []nvml.GPU{full.GPUs[0], full.GPUs[2]}}
	w.set()
	w.offers(whole, 3, 2, 2)
	w.refused(p, "c", notice.ReasonUnhealthy, "is unhealthy")
	w.start()
	w.offers(whole, 3, 2, 2)
	w.snapshot = full
	w.set()
	w.offers(whole, 3, 3, 2)
	w.runs(p, "c", "1")
	// Lost, as the driver says.
	w.snapshot.GPUs[1].Lost = true
	w.set()
	w.offers(whole, 3, 2, 2)
	w.end(p)
	w.offers(whole, 3, 2, 2)
}

func TestADriverThatCannotBeReadLeavesNothingToGive(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	if err := w.node.SetGPUs(nvml.Snapshot{Failed: "NVML library not found"}, nil, w.settings); err != nil {
		t.Fatal(err)
	}
	w.offers(whole, 2, 0, 0)
	w.set()
	w.offers(whole, 2, 2, 2)
}

func TestChangedTellsOnceOfWhatIsNew(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	changed := func() bool {
		select {
		case <-w.node.Changed():
			return true
		default:
			return false
		}
	}
	if !changed() || changed() {
		t.Error("the first offer is not told exactly once")
	}
	w.set()
	if changed() {
		t.Error("the same offer is told again")
	}
	w.healthy[w.uuid(0)] = false
	w.set()
	if !changed() {
		t.Error("a GPU that failed is not told")
	}
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(p))
	w.runs(p, "c", "1")
	if changed() {
		t.Error("an ID that stands for what it did is told")
	}
}

func TestBesideAnotherPluginNoSharesByMemoryAreOffered(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	<-w.node.Changed()
	for _, c := range []struct {
		other        bool
		memory, told int
	}{{true, 0, 1}, {true, 0, 0}, {false, 80, 1}, {false, 80, 0}, {true, 0, 1}} {
		w.node.SetOtherPlugin(c.other)
		got := w.node.Offers()
		if len(got[whole]) != 2 || len(got[memory]) != c.memory {
			t.Errorf("beside another plugin %t: %d GPUs and %d GiB are offered, want 2 and %d", c.other, len(got[whole]), len(got[memory]), c.memory)
		}
		if told := len(w.node.Changed()); told != c.told {
			t.Errorf("beside another plugin %t: told %d times, want %d", c.other, told, c.told)
		}
		for len(w.node.Changed()) > 0 {
			<-w.node.Changed()
		}
	}
}

func TestOneAgentAtATime(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(p))
	w.runs(p, "c", "1")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := allocation.New(ctx, w.options); !errors.Is(err, context.Canceled) {
		t.Errorf("a second agent starts beside the first: %v", err)
	}
	got := make(chan *allocation.Node, 1)
	go func() {
		n, err := allocation.New(context.Background(), w.options)
		if err != nil {
			t.Error(err)
		}
		got <- n
	}()
	w.runs(p, "c", "1")
	w.node.Close()
	select {
	case n := <-got:
		defer n.Close()
		if len(n.Holders()) != 1 {
			t.Errorf("the next agent knows of %v", n.Holders())
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the next agent does not start when the first has ended")
	}
}

func TestWhatWritingLeftBehindIsRemovedAtTheStart(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(p))
	w.runs(p, "c", "1")
	for name, text := range map[string]string{
		".berth-alloc-abc.tmp": "{", "berth-alloc-bad.json": "{", "berth-alloc-none.json": `{"annotations":{}}`, "other.json": "{}",
	} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	list := w.specs()
	if len(list) != 2 || list[1] != "other.json" {
		t.Errorf("the folder has %v, want the pod's file and another's", list)
	}
	// Its pod ends while no agent runs.
	w.pods.remove("uid-p", true)
	w.forget("uid-p")
	w.start()
	if list := w.specs(); len(list) != 1 {
		t.Errorf("the folder has %v, want another's file alone", list)
	}
}

func TestAPodThatWasDeletedByForceKeepsItsDevicesWhileItRuns(t *testing.T) {
	for name, files := range map[string][3]string{
		"cgroup v2": {"/kubepods/besteffort/poduid-p/cgroup.events", "populated 1\nfrozen 0\n", "populated 0\nfrozen 0\n"},
		"cgroup v1": {"/memory/kubepods/poduid-p/abc/cgroup.procs", "4711\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, product(t, a100, 1))
			w.options.CgroupRoot = t.TempDir()
			w.start()
			p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(0)}})
			w.must(w.admit(p))
			w.runs(p, "c", "0")
			path := w.options.CgroupRoot + files[0]
			w.must(os.MkdirAll(filepath.Dir(path), 0o755))
			w.must(os.WriteFile(path, []byte(files[1]), 0o600))
			w.pods.remove("uid-p", true)
			w.forget("uid-p")
			if err := w.node.Tidy(context.Background()); err == nil || !strings.Contains(err.Error(), "pod uid-p was deleted by force, and its containers still run") {
				t.Errorf("Tidy: %v", err)
			}
			next := commits(pod("next", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(0)}})
			w.pods.put(next, true)
			w.held[held{"uid-next", "c", whole}] = w.answers("gpu-0")
			w.checkpoint()
			w.refused(next, "c", notice.ReasonTaken, "it is held by pod default/p")
			w.must(os.WriteFile(path, []byte(files[2]), 0o600))
			w.runs(next, "c", "0")
		})
	}
}

// answers is what Allocate says for IDs of whole GPUs.
func (w *world) answers(ids ...string) answer {
	w.t.Helper()
	out, err := w.node.Allocate(context.Background(), whole, [][]string{ids})
	w.must(err)
	return answer{ids, out.ContainerResponses[0]}
}

// nvidia-smi mig -dgi under a pod, between two of its processes: the driver forbids it
// only while one runs.
func TestAMIGDeviceThatIsDestroyedUnderItsPodIsGivenToNobody(t *testing.T) {
	const slice = "nvidia.com/mig-1g.5gb"
	gpus := product(t, a100, 1)
	p, _ := gpu.Find(a100)
	cut := func(profiles ...string) gpu.GPU {
		g := gpus[0]
		if err := gpu.Cut(&g, p, profiles); err != nil {
			t.Fatal(err)
		}
		return g
	}
	full := cut("1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb")
	w := newWorld(t, []gpu.GPU{full})
	w.settings.MIGStrategy = gpu.MIGMixed
	w.start()
	w.offers(slice, 7, 7, 7)
	holder := commits(pod("holder", asks("c", slice, 1)), map[string][]string{"c": {full.MIG[3].UUID + " 142 5100273664"}})
	w.must(w.admit(holder))
	if _, err := w.run(holder, "c"); err != nil {
		t.Fatal(err)
	}
	w.offers(slice, 7, 7, 6)
	become := func(g gpu.GPU) {
		w.snapshot = snapshotOf([]gpu.GPU{g})
		w.set()
	}
	// Its own device is destroyed by hand: its ID is its own still, and unhealthy.
	without := full
	without.MIG = slices.Delete(slices.Clone(full.MIG), 3, 4)
	become(without)
	w.offers(slice, 7, 6, 6)
	w.refused(holder, "c", notice.ReasonUnhealthy, "is unhealthy")
	other := commits(pod("other", asks("c", slice, 1)), map[string][]string{"c": {full.MIG[3].UUID + " 142 5100273664"}})
	if err := w.admit(other); err == nil {
		if _, err := w.run(other, "c"); err == nil {
			t.Error("another pod starts with a MIG device that is gone")
		}
	}
	w.end(other)
	// Made again in its place, it is the pod's and nobody else's.
	become(full)
	w.offers(slice, 7, 7, 6)
	w.end(holder)
	w.offers(slice, 7, 7, 7)
}
