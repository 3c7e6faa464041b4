package allocation_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"berth.dev/berth/agent/allocation/notice"
)

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
	w.refused(next, "c", notice.ReasonTaken, "it is held by pod default/old")
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
	w.must(w.node.PreStart(context.Background(), whole, w.held[held{"uid-p", "c", whole}].ids))
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
	w.refused(p, "c", notice.ReasonAmbiguous, "which it has allocated to several pods")
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
		for _, id := range a.ids { // one entry for each NUMA node
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
		w.refused(q, "c", notice.ReasonAmbiguous, "shares devices of nvidia.com/gpu with an init container")
	}
	w.checkpoint()
	w.runs(q, "init", "0")
	w.runs(q, "c", "0")
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
	w.snapshot.GPUs = nil // its ID goes with its pod
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
	if len(limits) > 0 || len(w.events) != 1 || !strings.Contains(w.events[0], "NoMemoryLimit: the pod is not limited to its 10240 MiB of GPU "+w.uuid(1)+": the node has no cgroup v2") {
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
	want := "kai Warning NoGPUGiven: container c runs without the GPU that is committed to it: it requests none of the resources that this node serves (nvidia.com/gpu, nvidia.com/gpu-memory)"
	if len(w.events) != 1 || !strings.HasPrefix(w.events[0], want) {
		t.Errorf("events are %q, want %q", w.events, want)
	}
	hami := asks("c", whole, 1)
	hami.Resources.Limits["nvidia.com/gpumem"] = *resource.NewQuantity(4000, resource.DecimalSI)
	q := commits(pod("hami", hami), map[string][]string{"c": {w.uuid(1) + " 97 4194304000"}})
	w.pods.put(q, true)
	w.held[held{"uid-hami", "c", whole}] = answer{ids: []string{"gpu-0"}}
	out, err := w.node.Allocate(context.Background(), whole, [][]string{{"gpu-0"}})
	w.must(err)
	w.held[held{"uid-hami", "c", whole}] = answer{[]string{"gpu-0"}, out.ContainerResponses[0]}
	w.checkpoint()
	w.runs(q, "c", "1")
	if len(w.events) != 1 {
		t.Errorf("events are %q", w.events)
	}
}
