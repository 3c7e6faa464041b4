package allocation_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"berth.dev/berth/agent/allocation"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// offer counts tokens of a resource: all, healthy, and healthy ones that no pod
// has.
func (w *world) offer(resource string) (all, healthy, free int) {
	for _, d := range w.node.Offers()[resource] {
		if all++; d.Healthy {
			healthy++
		}
	}
	for _, token := range w.node.Tokens(resource) {
		for _, d := range w.node.Offers()[resource] {
			if d.ID == token.Name && d.Healthy && !token.Held {
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
		w.t.Errorf("%s has %d tokens, %d healthy, %d of these free; want %d, %d, %d", resource, a, h, f, all, healthy, free)
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
	w.refused(other, "c", allocation.ReasonTaken, "it is held by pod default/")
	w.end(b)
	w.refused(other, "c", allocation.ReasonTaken, "it is held by pod default/c")
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
	// Taken out: its token is the pod's and unhealthy; the others are well.
	w.snapshot = nvml.Snapshot{Driver: full.Driver, GPUs: []nvml.GPU{full.GPUs[0], full.GPUs[2]}}
	w.set()
	w.offers(whole, 3, 2, 2)
	w.refused(p, "c", allocation.ReasonUnhealthy, "is unhealthy")
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
		t.Error("a token that stands for what it did is told")
	}
}

func TestPodsOfNVIDIAsPluginAreTakenOver(t *testing.T) {
	w := newWorld(t, product(t, a100, 2))
	old := pod("old", asks("c", whole, 1))
	w.pods.put(old, true)
	w.held[held{"uid-old", "c", whole}] = answer{[]string{w.uuid(1)}, &v1beta1.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": w.uuid(1)}}}
	w.checkpoint()
	w.start()
	if got := w.holders(); got != "old/c 1" {
		t.Errorf("holders are %q, want the pod that was there", got)
	}
	w.offers(whole, 2, 2, 1)
	w.runs(old, "c", "") // it starts again with the answer that it has
	next := commits(pod("next", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(next))
	w.refused(next, "c", allocation.ReasonTaken, "it is held by pod default/old")
	w.end(old)
	w.runs(next, "c", "1")
}

func TestATokenThatHasGoneFromOnePodToTheNextUnnoticed(t *testing.T) {
	w := newWorld(t, product(t, a100, 3)).start()
	first := commits(pod("first", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(0)}})
	w.must(w.admit(first, "gpu-0"))
	w.runs(first, "c", "0")
	w.pods.remove("uid-first", false)
	w.forget("uid-first")
	next := commits(pod("next", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(2)}})
	w.must(w.admit(next, "gpu-0"))
	w.runs(next, "c", "2")
	w.offers(whole, 3, 2, 1) // nobody may come to the first pod's GPU yet
	w.pods.remove("uid-first", true)
	w.must(w.node.Tidy(context.Background()))
	w.offers(whole, 3, 3, 2)
	w.start()
	w.offers(whole, 3, 3, 2)
}

func TestDevicesOfOtherPluginsAreNoneOfOurBusiness(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(p))
	w.held[held{"uid-p", "c", "rdma/hca"}] = answer{[]string{"mlx5_0"}, &v1beta1.ContainerAllocateResponse{}}
	w.checkpoint()
	w.must(w.node.PreStart(context.Background(), whole, w.held[held{"uid-p", "c", whole}].tokens))
	if _, there := w.node.Offers()["rdma/hca"]; there {
		t.Error("the resource of another plugin is offered")
	}
	w.start()
	if _, there := w.node.Offers()["rdma/hca"]; there {
		t.Error("the resource of another plugin is offered after a restart")
	}
}

func TestAChangeOfModeGivesNothingTwice(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(p))
	w.runs(p, "c", "1")
	w.options.Kubelet = true
	w.start()
	for _, d := range w.node.Offers()[whole] {
		if d.Healthy != (d.ID == w.uuid(0)) {
			t.Errorf("in mode kubelet device %s is healthy: %v", d.ID, d.Healthy)
		}
	}
	w.runs(p, "c", "1") // it starts again as before
	q := pod("q", asks("c", whole, 1))
	w.must(w.admit(q))
	w.must(w.node.Tidy(context.Background()))
	if got := w.holders(); got != "p/c 1*, q/c 0" {
		t.Errorf("in mode kubelet holders are %s", got)
	}
	w.options.Kubelet = false
	w.start()
	if got := w.holders(); got != "p/c 1*, q/c 0" {
		t.Errorf("back in mode committed holders are %s", got)
	}
	w.offers(whole, 2, 2, 0)
}

func TestTwoPodsOnOneTokenAreToldApartByWhoLives(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	dead := commits(pod("dead", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(0)}})
	w.must(w.admit(dead, "gpu-0"))
	left := w.held[held{"uid-dead", "c", whole}]
	delete(w.held, held{"uid-dead", "c", whole})
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(p, "gpu-0"))
	w.held[held{"uid-dead", "c", whole}] = left
	w.checkpoint()
	w.refused(p, "c", allocation.ReasonAmbiguous, "which it has given to pods")
	w.pods.remove("uid-dead", true)
	w.runs(p, "c", "1")
}

// lister is the kubelet's pod-resources API.
type lister struct {
	podresources.UnimplementedPodResourcesListerServer
	w *world
}

func (l *lister) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	out := &podresources.ListPodResourcesResponse{}
	for h, a := range l.w.held {
		if strings.HasPrefix(h.container, "init") {
			continue // the kubelet does not list them
		}
		c := &podresources.ContainerResources{Name: h.container}
		for _, id := range a.tokens { // one entry for each NUMA node
			c.Devices = append(c.Devices, &podresources.ContainerDevices{ResourceName: h.resource, DeviceIds: []string{id}})
		}
		out.PodResources = append(out.PodResources, &podresources.PodResources{
			Name: strings.TrimPrefix(h.pod, "uid-"), Namespace: "default", Containers: []*podresources.ContainerResources{c},
		})
	}
	return out, nil
}

func TestACheckpointOfAnotherFormatIsDoneWithout(t *testing.T) {
	w := newWorld(t, product(t, a100, 4))
	w.options.PodResources = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", w.options.PodResources)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, &lister{w: w})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	w.start()

	p := commits(pod("p", asks("c", whole, 2)), map[string][]string{"c": {w.uuid(3), w.uuid(2)}})
	w.must(w.admit(p))
	q := pod("q", asks("c", whole, 1))
	q.Spec.InitContainers = []v1.Container{asks("init", whole, 1)}
	q = commits(q, map[string][]string{"init": {w.uuid(0)}, "c": {w.uuid(0)}})
	w.must(w.admit(q))
	for _, text := range []string{`{"Data":`, `[]`, `{"V3":{}}`, `{"Data":{"PodDeviceEntries":[{"Pod":"x"}]}}`, `{"Data":{"PodDeviceEntries":[{"PodUID":"a","ContainerName":"c","ResourceName":"r","AllocResp":"/////w=="}]}}`} {
		if err := os.WriteFile(filepath.Join(w.devices, "kubelet_internal_checkpoint"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.runs(p, "c", "2 3")
		w.refused(q, "c", allocation.ReasonAmbiguous, "shares devices of nvidia.com/gpu with an init container")
	}
	w.checkpoint()
	w.runs(q, "init", "0")
	w.runs(q, "c", "0")
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
	case <-time.After(30 * time.Second):
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

func TestPodsThatCannotBeReadKeepWhatTheyHold(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(p))
	w.runs(p, "c", "1")
	w.pods.err = errors.New("the API server is away")
	w.start()
	if err := w.node.Tidy(context.Background()); err == nil {
		t.Error("Tidy says that all is well")
	}
	if got := w.holders(); got != "p/c 1*" {
		t.Errorf("holders are %q", got)
	}
	w.offers(whole, 2, 2, 1)
	w.runs(p, "c", "1") // the container crashed and starts again
}

func TestRunFollowsPods(t *testing.T) {
	w := newWorld(t, product(t, a100, 1)).start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(0)}})
	w.must(w.admit(p))
	w.runs(p, "c", "0")
	for len(w.node.Changed()) > 0 {
		<-w.node.Changed()
	}
	w.healthy[w.uuid(0)] = false
	w.set()
	<-w.node.Changed()
	w.snapshot.GPUs = nil // its token goes with its pod
	w.set()
	<-w.node.Changed()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.node.Run(ctx)
	}()
	w.pods.remove("uid-p", true)
	w.pods.changed <- struct{}{}
	<-w.node.Changed()
	if got := w.holders(); got != "" {
		t.Errorf("holders are %q", got)
	}
	cancel()
	<-done
}

func TestMemoryLimitsAreTheDriversWhereItHasThem(t *testing.T) {
	w := newWorld(t, product(t, a100, 2))
	w.options.CgroupRoot = t.TempDir()
	var limits []string
	var fail error
	w.options.SetMemoryLimit = func(_ context.Context, uuid, cgroup string, bytes int64) error {
		limits = append(limits, uuid+" "+strings.TrimPrefix(cgroup, w.options.CgroupRoot)+" "+itoa(bytes>>30))
		return fail
	}
	w.start()
	p := commits(pod("p", asks("a", memory, 6), asks("b", memory, 4)), map[string][]string{
		"a": {w.uuid(1) + " 150 6442450944"}, "b": {w.uuid(1) + " 100 4294967296"},
	})
	w.must(w.admit(p))
	w.runs(p, "a", "1")
	if len(limits) > 0 || len(w.events) != 1 || !strings.Contains(w.events[0], "NoMemoryLimit: nothing keeps the pod to its 10240 MiB of GPU "+w.uuid(1)+": the node has no cgroup v2") {
		t.Errorf("without cgroup v2: limits %v, events %v", limits, w.events)
	}
	w.runs(p, "b", "1")
	if len(w.events) != 1 {
		t.Errorf("the same is told again: %v", w.events)
	}
	w.start()
	group := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poduid_p.slice"
	w.must(os.MkdirAll(w.options.CgroupRoot+group, 0o755))
	w.must(os.WriteFile(w.options.CgroupRoot+"/cgroup.controllers", nil, 0o600))
	w.runs(p, "b", "1")
	w.runs(p, "a", "1")
	if len(limits) != 1 || limits[0] != w.uuid(1)+" "+group+" 10" {
		t.Errorf("limits are %v", limits)
	}
	fail = errors.New("not supported by this driver")
	w.start()
	w.runs(p, "a", "1")
	if len(w.events) != 2 || !strings.Contains(w.events[1], "not supported by this driver") {
		t.Errorf("events are %v", w.events)
	}
}

func TestACommitmentThatTheKubeletNeverAsksForIsTold(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	p := commits(pod("kai", asks("c")), map[string][]string{"c": {w.uuid(0) + " 500 21474836480"}})
	p.Annotations["gpu-fraction"] = "0.5"
	w.must(w.admit(p))
	for range 2 {
		w.must(w.node.Tidy(context.Background()))
	}
	want := "kai Warning NoGPUGiven: container c runs without the GPU that is committed to it: it asks for it by none of the resources that this node serves (nvidia.com/gpu, nvidia.com/gpu-memory)"
	if len(w.events) != 1 || !strings.HasPrefix(w.events[0], want) {
		t.Errorf("events are %q, want %q", w.events, want)
	}
	hami := asks("c", whole, 1)
	hami.Resources.Limits["nvidia.com/gpumem"] = *resource.NewQuantity(4000, resource.DecimalSI)
	q := commits(pod("hami", hami), map[string][]string{"c": {w.uuid(1) + " 97 4194304000"}})
	w.pods.put(q, true)
	w.held[held{"uid-hami", "c", whole}] = answer{tokens: []string{"gpu-0"}}
	out, err := w.node.Allocate(context.Background(), whole, [][]string{{"gpu-0"}})
	w.must(err)
	w.held[held{"uid-hami", "c", whole}] = answer{[]string{"gpu-0"}, out.ContainerResponses[0]}
	w.checkpoint()
	w.runs(q, "c", "1")
	if len(w.events) != 1 {
		t.Errorf("events are %q", w.events)
	}
}
