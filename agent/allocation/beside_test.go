package allocation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/test/soak"
)

// seeing is a world whose containers see their GPUs by CDI, committed or not.
func seeing(t *testing.T, gpus []gpu.GPU) *world {
	w := newWorld(t, gpus)
	w.settings.Plugin.DeviceListStrategy = []string{"cdi-cri"}
	return w
}

// given is a pod that another device plugin has given devices, by their own IDs.
func (w *world) given(p *v1.Pod, container, resource string, ids ...string) {
	w.t.Helper()
	w.pods.put(p, true)
	w.held[held{string(p.UID), container, resource}] = answer{ids, &v1beta1.ContainerAllocateResponse{
		Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(ids, ",")},
	}}
	w.checkpoint()
}

// tidy does what Run does when something has changed.
func (w *world) tidy() {
	w.t.Helper()
	w.must(w.node.Tidy(context.Background()))
}

func TestWhatAnotherPluginGaveMeanwhileIsGivenToNobodyElse(t *testing.T) {
	away := errors.New("the API server is away")
	for _, c := range []struct {
		name    string
		then    func(*world)
		offered int // healthy IDs that no pod has
	}{
		{"the agent is told that the other has gone", func(w *world) { w.node.SetOtherPlugin(false) }, 1},
		{"it is told so while the API server is away", func(w *world) {
			w.pods.err = away
			w.node.SetOtherPlugin(false)
		}, 1},
		{"the other comes back and goes again", func(w *world) {
			w.node.SetOtherPlugin(false)
			w.node.SetOtherPlugin(true)
			w.node.SetOtherPlugin(false)
		}, 1},
		{"the agent is killed and started anew", func(w *world) { w.start() }, 1},
		{"it is started anew while the API server is away", func(w *world) {
			w.pods.err = away
			w.start()
		}, 1},
		{"the GPUs are read anew", func(w *world) { w.set() }, 1},
		{"nobody tells the agent anything", func(*world) {}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := seeing(t, product(t, a100, 3))
			w.given(pod("before", asks("c", whole, 1)), "c", whole, w.uuid(0))
			w.start()
			w.node.SetOtherPlugin(true)
			x := pod("beside", asks("c", whole, 1))
			w.given(x, "c", whole, w.uuid(1))
			c.then(w)
			if _, _, free := w.offer(whole); free != c.offered {
				t.Errorf("%d IDs are free, want %d", free, c.offered)
			}
			w.pods.err = nil
			p, q := pod("p", asks("c", whole, 1)), pod("q", asks("c", whole, 1))
			id, ok := w.idOf(w.uuid(1))
			if !ok || c.offered == 1 {
				id = "" // what is held is not to be picked
			}
			w.must(w.admit(p, id))
			w.runs(p, "c", "2")
			if err := w.admit(q); err == nil {
				w.refused(q, "c", notice.ReasonTaken, "all others are allocated or committed")
			}
			w.tidy()
			if got := w.holders(); got != "before/c 0, beside/c 1, p/c 2" {
				t.Errorf("holders are %q", got)
			}
			w.end(x)
			w.forget("uid-q")
			w.must(w.admit(q))
			w.runs(q, "c", "1")
		})
	}
}

// idOf is the ID that stands for a GPU.
func (w *world) idOf(uuid string) (string, bool) {
	for _, id := range w.node.Placeholders(whole) {
		if id.Device.UUID == uuid && !id.Gone {
			return id.Name, true
		}
	}
	return "", false
}

func TestACommitmentToWhatAnotherPluginGaveWaitsForItsEnd(t *testing.T) {
	w := seeing(t, product(t, a100, 2)).start()
	x := pod("x", asks("c", whole, 1))
	w.given(x, "c", whole, w.uuid(1)) // and the agent has heard of nothing
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(p))
	w.refused(p, "c", notice.ReasonTaken, "it is held by ")
	w.end(x)
	w.runs(p, "c", "1")
}

func TestSharesOfAnotherPluginHoldTheGPUThatIsOfferedWhole(t *testing.T) {
	w := seeing(t, product(t, a100, 2)).start()
	x, y := pod("x", asks("c", whole, 1)), pod("y", asks("c", whole, 1))
	w.given(x, "c", whole, w.uuid(0)+"::1")
	w.given(y, "c", "nvidia.com/gpu.shared", w.uuid(0)+"::3")
	w.tidy()
	if _, _, free := w.offer(whole); free != 1 {
		t.Errorf("%d IDs are free, want that of GPU 1", free)
	}
	if offers := w.node.Offers(); len(offers) != 2 {
		t.Errorf("offered are %v: the other plugin's resource is its own", slices.Sorted(maps.Keys(offers)))
	}
	if got := w.holders(); got != "x/c 0, y/c 0" {
		t.Errorf("holders are %q", got)
	}
	w.end(x)
	p, q := pod("p", asks("c", whole, 1)), pod("q", asks("c", whole, 1))
	w.must(w.admit(p))
	w.runs(p, "c", "1")
	if err := w.admit(q); err == nil {
		t.Error("the kubelet is offered a GPU that a pod has a share of")
	}
	w.end(y)
	w.must(w.admit(q))
	w.runs(q, "c", "0")
}

func TestAWholeGPUOfAnotherPluginHoldsAllSharesOfIt(t *testing.T) {
	w := seeing(t, product(t, a100, 2))
	slicing(w, 4)
	w.start()
	w.given(pod("x", asks("c", whole, 1)), "c", whole, w.uuid(1))
	w.tidy()
	if _, _, free := w.offer(whole); free != 4 {
		t.Errorf("%d IDs are free, want the four of GPU 0", free)
	}
	for i := range 4 {
		p := pod(fmt.Sprintf("p%d", i), asks("c", whole, 1))
		w.must(w.admit(p))
		w.runs(p, "c", "0")
	}
}

func TestWhatAnotherPluginGaveIsHeldOnceTheDriverAnswers(t *testing.T) {
	w := seeing(t, product(t, a100, 2))
	gpus := w.snapshot.GPUs
	w.given(pod("x", asks("c", whole, 1)), "c", whole, gpus[1].UUID)
	w.snapshot.GPUs, w.snapshot.Failed = nil, "the driver is not loaded"
	w.start()
	w.snapshot.GPUs, w.snapshot.Failed = gpus, ""
	w.set()
	if _, _, free := w.offer(whole); free != 1 {
		t.Errorf("%d IDs are free, want one", free)
	}
}

// The kubelet forgets the devices of a pod that has ended when it next gives some.
func TestAPodThatHasEndedHoldsNothingThoughTheKubeletNamesIt(t *testing.T) {
	w := seeing(t, product(t, a100, 2)).start()
	x := pod("x", asks("c", whole, 1))
	w.given(x, "c", whole, w.uuid(1))
	x = x.DeepCopy()
	x.Status.Phase = v1.PodSucceeded
	w.pods.put(x, true)
	for range 3 {
		w.tidy()
		if got := w.holders(); got != "" {
			t.Errorf("holders are %q", got)
		}
		w.offers(whole, 2, 2, 2)
		w.set()
		w.offers(whole, 2, 2, 2)
	}
	// A static pod may be known to the kubelet before it is to the API server.
	late := pod("late", asks("c", whole, 1))
	w.given(late, "c", whole, w.uuid(0))
	w.pods.remove("uid-late", true)
	w.tidy()
	if got := w.holders(); got != "" {
		t.Errorf("holders are %q", got)
	}
	w.pods.put(late, true)
	for range 2 { // as Run does, which is told to
		w.tidy()
	}
	if got := w.holders(); got != "late/c 0" {
		t.Errorf("holders are %q", got)
	}
}

func TestContainersThatTheKubeletNotesOneAfterAnotherAllHold(t *testing.T) {
	w := seeing(t, product(t, a100, 3)).start()
	x := pod("x", asks("a", whole, 1), asks("b", whole, 1))
	w.given(x, "a", whole, w.uuid(0))
	w.tidy()
	w.given(x, "b", whole, w.uuid(2))
	w.tidy()
	if got := w.holders(); got != "x/a 0, x/b 2" {
		t.Errorf("holders are %q", got)
	}
}

// An ID keeps the name that another plugin's pod has brought. What it is given for
// later is ours to say.
func TestATokenWithTheNameOfAGPUIsATokenLikeOthers(t *testing.T) {
	w := seeing(t, product(t, a100, 2))
	x := pod("x", asks("c", whole, 1))
	w.given(x, "c", whole, w.uuid(0))
	w.start()
	w.end(x)
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(p, w.uuid(0)))
	if got := w.held[held{"uid-p", "c", whole}].ids; !slices.Equal(got, []string{w.uuid(0)}) {
		t.Fatalf("the kubelet picked %v", got)
	}
	w.tidy()
	if got := w.holders(); got != "" {
		t.Errorf("before its start the pod holds %q", got)
	}
	w.runs(p, "c", "1")
	q := pod("q", asks("c", whole, 1))
	w.must(w.admit(q))
	w.runs(q, "c", "0")
}

// deaf is a pod-resources API that answers, or does not.
type deaf struct {
	lister
	why error
}

func (d *deaf) List(ctx context.Context, r *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	if d.why != nil {
		return nil, d.why
	}
	return d.lister.List(ctx, r)
}

func TestNothingIsOfferedBeforeItIsKnownWhatAnotherPluginGave(t *testing.T) {
	w := seeing(t, product(t, a100, 2))
	var told []string
	w.options.NodeEvent = func(kind, reason, message string) { told = append(told, kind+" "+reason+": "+message) }
	w.options.PodResources = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", w.options.PodResources)
	w.must(err)
	kubelet := &deaf{lister: lister{w: w}, why: errors.New("it has just started")}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, kubelet)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-served })
	w.start()
	w.offers(whole, 2, 2, 2)
	w.node.SetOtherPlugin(true)
	w.given(pod("x", asks("c", whole, 1)), "c", whole, w.uuid(1))
	garbage := func() {
		w.must(os.WriteFile(filepath.Join(w.devices, "kubelet_internal_checkpoint"), []byte(`{"Data":`), 0o600))
	}
	garbage()
	w.node.SetOtherPlugin(false)
	w.offers(whole, 2, 0, 0)
	for range 2 {
		if err := w.node.Tidy(context.Background()); err == nil || !strings.Contains(err.Error(), "it has just started") {
			t.Errorf("Tidy: %v", err)
		}
		w.offers(whole, 2, 0, 0)
	}
	want := "Warning GivenDevicesUnknown: this node offers no GPUs: cannot tell which GPUs other device plugins allocated to pods: the kubelet's checkpoint has an unknown format"
	if len(told) != 1 || !strings.HasPrefix(told[0], want) {
		t.Errorf("told is %q, want once %q", told, want)
	}
	kubelet.why = nil
	w.tidy()
	if _, _, free := w.offer(whole); free != 1 {
		t.Errorf("%d IDs are free, want one", free)
	}
	w.set() // what was known stays known
	if _, _, free := w.offer(whole); free != 1 {
		t.Errorf("after the GPUs were read anew %d IDs are free, want one", free)
	}
	p := pod("p", asks("c", whole, 1))
	w.must(w.admit(p))
	garbage()
	w.runs(p, "c", "0")
}

// Whatever plugin serves the node, whoever is killed, and whatever is heard of it: no
// GPU is given to a pod while another pod has it.
func TestTwoPluginsInTurnGiveNoGPUTwice(t *testing.T) {
	for seed := range soak.Pick[uint64](4, 8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := &turns{world: seeing(t, product(t, a100, 4)), has: map[string]string{}, pods: map[string]*v1.Pod{}}
			s.rng = rand.New(rand.NewPCG(seed, 11))
			s.start()
			for range 80 {
				s.step()
			}
		})
	}
}

// turns is a node that two plugins serve in turn.
type turns struct {
	*world
	pods  map[string]*v1.Pod // that live, by name
	has   map[string]string  // pod, by the GPU's number
	other bool               // another plugin serves
	next  int
}

func (s *turns) step() {
	switch s.rng.IntN(9) {
	case 0:
		s.other = !s.other
		s.node.SetOtherPlugin(s.other)
	case 1, 2, 3:
		s.next++
		if p := pod(fmt.Sprintf("p%03d", s.next), asks("c", whole, 1)); s.other {
			s.theirs(p)
		} else {
			s.ours(p)
		}
	case 4, 5:
		s.finish()
	case 6:
		s.start()
		s.node.SetOtherPlugin(s.other)
	case 7:
		s.set()
	case 8:
		s.tidy()
	}
}

// theirs is a pod that the other plugin gives a GPU that no pod has.
func (s *turns) theirs(p *v1.Pod) {
	for i := range 4 {
		gpu := fmt.Sprint(i)
		if s.has[gpu] == "" {
			s.given(p, "c", whole, s.uuid(i))
			s.has[gpu], s.pods[p.Name] = p.Name, p
			return
		}
	}
}

// ours is a pod that the agent gives a GPU, or none.
func (s *turns) ours(p *v1.Pod) {
	s.t.Helper()
	if s.admit(p) != nil {
		s.world.pods.remove(string(p.UID), true)
		return
	}
	gpu, err := s.run(p, "c")
	if err != nil { // it waits, and its owner deletes it
		s.end(p)
		return
	}
	if s.has[gpu] != "" {
		s.t.Fatalf("pod %s is given GPU %s, which pod %s has", p.Name, gpu, s.has[gpu])
	}
	s.has[gpu], s.pods[p.Name] = p.Name, p
}

// finish ends a pod, of which the agent hears or not.
func (s *turns) finish() {
	names := slices.Sorted(maps.Keys(s.pods))
	if len(names) == 0 {
		return
	}
	p := s.pods[names[s.rng.IntN(len(names))]]
	delete(s.pods, p.Name)
	maps.DeleteFunc(s.has, func(_, name string) bool { return name == p.Name })
	s.world.pods.remove(string(p.UID), s.rng.IntN(2) == 0)
	if s.rng.IntN(2) == 0 { // the kubelet may name it for long
		s.forget(string(p.UID))
	}
}
