package deviceplugin_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/deviceplugin/kubelettest"
)

func TestEachResourceIsRegisteredUnderItsOwnSocket(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	const mig, shared, other = "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared", "example.com/part"
	c := new(deviceplugin.Counters)
	serve(t, deviceplugin.Options{Dir: dir, Counters: c}, newNode(map[string][]deviceplugin.Device{
		gpus: devices("gpu", 8), mig: devices("mig-1g.10gb", 7), shared: devices("gpu.shared", 4), other: devices("part", 2),
	}))
	await(t, k, gpus, 8, 8)
	await(t, k, mig, 7, 7)
	await(t, k, shared, 4, 4)
	await(t, k, other, 2, 2)
	want := []string{"berth-example.com-part.sock", "berth-nvidia-gpu.shared.sock", "berth-nvidia-gpu.sock", "berth-nvidia-mig-1g.10gb.sock"}
	if diff := cmp.Diff(want, sockets(t, dir)); diff != "" {
		t.Errorf("sockets (-want +got):\n%s", diff)
	}
	r := k.Registrations(gpus)[0]
	if !r.Options.PreStartRequired || !r.Options.GetPreferredAllocationAvailable {
		t.Errorf("registered with %v, want both calls asked for", r.Options)
	}
	if got := k.Devices(gpus)[7]; got.ID != "gpu-7" || got.Topology.Nodes[0].ID != 1 {
		t.Errorf("device 7 is %v, want gpu-7 on NUMA node 1", got)
	}
	awaitCount(t, "registrations", &c.Registrations, 4)
}

func TestTheListIsSentOnlyWhenItChanges(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	n := offering(gpus, "gpu", 4)
	serve(t, deviceplugin.Options{Dir: dir}, n)
	await(t, k, gpus, 4, 4)

	// The checkpoint is written for every list. Its time would change.
	before, err := os.Stat(filepath.Join(dir, kubelettest.CheckpointName))
	if err != nil {
		t.Fatal(err)
	}
	same := devices("gpu", 4)
	slices.Reverse(same) // the order is the node's business
	n.set(gpus, same)
	n.set("example.com/later", devices("later", 1)) // comes after whatever the first might send
	await(t, k, "example.com/later", 1, 1)
	if got := k.Devices(gpus); len(got) != 4 {
		t.Errorf("devices %v, want the four", got)
	}
	sent := devices("gpu", 4)
	sent[2].Healthy = false
	n.set(gpus, sent)
	await(t, k, gpus, 4, 3)
	after, err := os.Stat(filepath.Join(dir, kubelettest.CheckpointName))
	if err != nil || after.ModTime().Equal(before.ModTime()) {
		t.Errorf("checkpoint not written after a change (%v)", err)
	}
	sent = devices("gpu", 4)
	n.set(gpus, sent)
	await(t, k, gpus, 4, 4)
	if got := k.Registrations(gpus); len(got) != 1 {
		t.Errorf("%d registrations, want 1", len(got))
	}
}

func TestAPodGetsWhatTheNodeAnswers(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	n := offering(gpus, "gpu", 4)
	n.prefer = func(available, must []string, count int) ([]string, error) {
		slices.Sort(available)
		return available[len(available)-count:], nil
	}
	n.allocate = func(_ context.Context, ids []string) (*v1beta1.ContainerAllocateResponse, error) {
		slices.Sort(ids)
		return &v1beta1.ContainerAllocateResponse{Envs: map[string]string{"IDS": strings.Join(ids, ",")}}, nil
	}
	var started []string
	n.preStart = func(_ context.Context, ids []string) error {
		started = append(started, strings.Join(slices.Sorted(slices.Values(ids)), ","))
		return nil
	}
	c := new(deviceplugin.Counters)
	serve(t, deviceplugin.Options{Dir: dir, Counters: c}, n)
	await(t, k, gpus, 4, 4)
	if err := k.Admit(wait(t), pod("a", map[string]int{gpus: 2})); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a container that restarts asks again
		got, err := k.StartContainer(wait(t), "a", "c")
		if err != nil || got[gpus].Envs["IDS"] != "gpu-2,gpu-3" {
			t.Fatalf("StartContainer = %v, %v, want gpu-2,gpu-3", got, err)
		}
	}
	if want := []string{"gpu-2,gpu-3", "gpu-2,gpu-3"}; !slices.Equal(started, want) {
		t.Errorf("PreStart got %v, want %v", started, want)
	}
	if c.Allocates.Load() != 1 || c.PreStarts.Load() != 2 || c.AllocateNanos.Load() <= 0 || c.PreStartNanos.Load() <= 0 {
		t.Errorf("counted %d allocations and %d starts, want 1 and 2, with their times", c.Allocates.Load(), c.PreStarts.Load())
	}
}

func TestWhatGoesWrongReachesUsersAsASentence(t *testing.T) {
	fail := errors.New("pod default/a asks for a GPU and has no berth.dev/devices annotation: set schedulerName: berth")
	for _, c := range []struct {
		name     string
		allocate func(context.Context, []string) (*v1beta1.ContainerAllocateResponse, error)
		preStart func(context.Context, []string) error
		want     string
	}{
		{
			name:     "a refusal of the node is passed on",
			preStart: func(context.Context, []string) error { return fail },
			want:     "CreateContainerConfigError: device plugin PreStartContainer rpc failed with err: rpc error: code = FailedPrecondition desc = berth: " + fail.Error(),
		},
		{
			name:     "a panic in PreStart is an error, and the plugin lives on",
			preStart: func(context.Context, []string) error { panic("index out of range") },
			want:     `desc = berth: the node agent has a bug: PreStartContainer of nvidia.com/gpu stopped at "index out of range"; see its log`,
		},
		{
			name: "a panic in Allocate fails the pod with a sentence",
			allocate: func(context.Context, []string) (*v1beta1.ContainerAllocateResponse, error) {
				panic("nil map")
			},
			want: `UnexpectedAdmissionError: Allocate failed due to rpc error: code = FailedPrecondition desc = berth: the node agent has a bug: Allocate of nvidia.com/gpu stopped at "nil map"; see its log, which is unexpected`,
		},
		{
			name: "a device that is not known fails the pod",
			allocate: func(context.Context, []string) (*v1beta1.ContainerAllocateResponse, error) {
				return nil, errors.New("berth: no device gpu-9 on this node")
			},
			want: "desc = berth: no device gpu-9 on this node, which is unexpected",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t)
			k := start(t, dir)
			n := offering(gpus, "gpu", 4)
			n.allocate, n.preStart = c.allocate, c.preStart
			serve(t, deviceplugin.Options{Dir: dir}, n)
			await(t, k, gpus, 4, 4)
			err := k.Admit(wait(t), pod("a", map[string]int{gpus: 1}))
			if err == nil {
				_, err = k.StartContainer(wait(t), "a", "c")
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			await(t, k, gpus, 4, 4)
		})
	}
}

func TestANodeThatDoesNotAnswerIsGivenUpBeforeTheKubeletGivesUp(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	n := offering(gpus, "gpu", 4)
	end := make(chan struct{})
	defer close(end)
	n.preStart = func(context.Context, []string) error { <-end; return nil }
	stop := serve(t, deviceplugin.Options{Dir: dir}, n) // which has all the time to admit the pod
	await(t, k, gpus, 4, 4)
	if err := k.Admit(wait(t), pod("a", map[string]int{gpus: 1})); err != nil {
		t.Fatal(err)
	}
	stop()
	serve(t, deviceplugin.Options{Dir: dir}.Allowing(100*time.Millisecond), n)
	await(t, k, gpus, 4, 4)
	_, err := k.StartContainer(wait(t), "a", "c")
	want := "code = FailedPrecondition desc = berth: PreStartContainer of nvidia.com/gpu was not answered within 100ms: see whether the driver answers (berth doctor node) and the node agent's log"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	await(t, k, gpus, 4, 4)
}

func TestAPreferenceThatFailsCostsNoPodItsStart(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	n := offering(gpus, "gpu", 4)
	n.prefer = func([]string, []string, int) ([]string, error) { panic("no links") }
	c := new(deviceplugin.Counters)
	serve(t, deviceplugin.Options{Dir: dir, Counters: c}, n)
	await(t, k, gpus, 4, 4)
	if err := k.Admit(wait(t), pod("a", map[string]int{gpus: 2})); err != nil {
		t.Error(err)
	}
	if c.Panics.Load() != 1 {
		t.Errorf("%d panics counted, want 1", c.Panics.Load())
	}
}

func TestAnAnswerForTooFewContainersIsRefused(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	serve(t, deviceplugin.Options{Dir: dir}, short{offering(gpus, "gpu", 4)})
	await(t, k, gpus, 4, 4)
	err := k.Admit(wait(t), pod("a", map[string]int{gpus: 1}))
	if want := "answered for 0 of 1 containers that ask for nvidia.com/gpu"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Admit = %v, want %q", err, want)
	}
}

// short answers for no container.
type short struct{ *node }

func (short) Allocate(context.Context, string, [][]string) (*v1beta1.AllocateResponse, error) {
	return nil, nil
}

func TestObserveTouchesNothing(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	n := offering(gpus, "gpu", 4)
	stop := serve(t, deviceplugin.Options{Dir: dir, Observe: true}, n)
	stop()
	if got := sockets(t, dir); len(got) != 0 {
		t.Errorf("sockets %v, want none", got)
	}
	if got := k.Registrations(gpus); len(got) != 0 {
		t.Errorf("registrations %v, want none", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := deviceplugin.Run(ctx, deviceplugin.Options{Dir: "/nonexistent", Observe: true}, n); err != nil {
		t.Errorf("Run on a machine without a kubelet = %v, want nil", err)
	}
}

func TestRunSaysWhatIsWrongWithTheFolder(t *testing.T) {
	file := filepath.Join(folder(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"/nonexistent/device-plugins": "directory /nonexistent/device-plugins does not exist: does this node run a kubelet, and is its directory mounted here at the same path?",
		file:                          file + " is not a directory: use the one that contains kubelet.sock",
	} {
		err := deviceplugin.Run(wait(t), deviceplugin.Options{Dir: dir}, offering(gpus, "gpu", 1))
		if err == nil || err.Error() != want {
			t.Errorf("Run = %v, want %s", err, want)
		}
	}
}

func TestRunEndsWhenTheFolderIsRemoved(t *testing.T) {
	dir := filepath.Join(folder(t), "device-plugins")
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- deviceplugin.Run(wait(t), deviceplugin.Options{Dir: dir}, offering(gpus, "gpu", 1))
	}()
	awaitFile(t, filepath.Join(dir, "berth-nvidia-gpu.sock"), func(_ os.FileInfo, err error) bool { return err == nil })
	for ctx := wait(t); os.RemoveAll(dir) != nil; { // the socket comes back meanwhile
		if ctx.Err() != nil {
			t.Fatal("the folder could not be removed")
		}
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "was removed: restart the node agent") {
		t.Errorf("Run = %v, want an error that says what to do", err)
	}
}
