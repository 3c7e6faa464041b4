package deviceplugin_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/deviceplugin/kubelettest"
)

// reports returns what Options.Foreign is told, in order.
type reports chan string

func (r reports) tell(resource, detail string) { r <- resource + ": " + detail }

// await takes the next report, which must hold the text.
func (r reports) await(t *testing.T, text string) {
	t.Helper()
	select {
	case got := <-r:
		if !strings.Contains(got, text) {
			t.Fatalf("reported %q, want %q", got, text)
		}
	case <-wait(t).Done():
		t.Fatalf("not reported: %q", text)
	}
}

func nvidia(dir, socket string) *kubelettest.Plugin {
	return &kubelettest.Plugin{Dir: dir, Socket: socket, Resource: gpus, IDs: []string{"GPU-a", "GPU-b"}}
}

// run starts somebody else's plugin, which is ended by the test.
func run(t *testing.T, p *kubelettest.Plugin) {
	t.Helper()
	if err := p.Start(wait(t)); err != nil {
		t.Fatal(err)
	}
}

const theirs = "nvidia.com/gpu: another device plugin serves nvidia.com/gpu at "

func TestAPluginThatWasThereBeforeKeepsItsResource(t *testing.T) {
	dir, r := folder(t), make(reports, 1000)
	k := start(t, dir)
	p := nvidia(dir, "nvidia-gpu.sock")
	run(t, p)
	await(t, k, gpus, 2, 2)
	n := offering(gpus, "gpu", 8)
	n.set("nvidia.com/mig-1g.10gb", devices("mig-1g.10gb", 7))
	serve(t, deviceplugin.Options{Dir: dir, Foreign: r.tell}.Quick(), n)
	r.await(t, theirs+filepath.Join(dir, "nvidia-gpu.sock")+". Berth leaves the resource to it: run only one of the two on a node")
	await(t, k, "nvidia.com/mig-1g.10gb", 7, 7) // which the other does not offer
	await(t, k, gpus, 2, 2)
	if got := k.Registrations(gpus); len(got) != 1 {
		t.Errorf("%d registrations, want the other's only", len(got))
	}
	p.Stop()
	r.await(t, "nvidia.com/gpu: ")
	await(t, k, gpus, 8, 8)
}

func TestAPluginThatComesLaterGetsTheResource(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*kubelettest.Plugin)
	}{
		{"and gives it back when it stops", (*kubelettest.Plugin).Stop},
		{"and gives it back when it is killed and leaves its socket", (*kubelettest.Plugin).Kill},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, r := folder(t), make(reports, 1000)
			k := start(t, dir)
			n := offering(gpus, "gpu", 8)
			serve(t, deviceplugin.Options{Dir: dir, Foreign: r.tell}.Quick(), n)
			await(t, k, gpus, 8, 8)
			for range 3 { // comes and goes
				p := nvidia(dir, "nvidia-gpu.sock")
				run(t, p)
				r.await(t, theirs)
				awaitBoth(t, k, gpus, 2, 2)
				n.set(gpus, devices("gpu", 7)) // said to nobody: the kubelet would take it
				n.set("example.com/later", devices("later", 1))
				await(t, k, "example.com/later", 1, 1)
				awaitBoth(t, k, gpus, 2, 2)
				if err := k.Admit(wait(t), pod("a", map[string]int{gpus: 1})); err != nil {
					t.Fatal(err)
				}
				if got := k.Held()[0].Response.Envs["PLUGIN"]; got != "nvidia-gpu.sock" {
					t.Errorf("Allocate went to %q, want the other plugin", got)
				}
				k.Remove("a")
				c.end(p)
				r.await(t, "nvidia.com/gpu: ")
				await(t, k, gpus, 7, 7)
				n.set(gpus, devices("gpu", 8))
				await(t, k, gpus, 8, 8)
				n.set("example.com/later", nil)
				if err := k.Admit(wait(t), pod("b", map[string]int{gpus: 8})); err != nil {
					t.Fatal(err)
				}
				k.Remove("b")
			}
		})
	}
}

func TestAPluginIsKnownByItsDevicesWhateverItsSocket(t *testing.T) {
	dir, r := folder(t), make(reports, 1000)
	k := start(t, dir)
	serve(t, deviceplugin.Options{Dir: dir, Foreign: r.tell}.Quick(), offering(gpus, "gpu", 8))
	await(t, k, gpus, 8, 8)
	unrelated := &kubelettest.Plugin{Dir: dir, Socket: "rdma.sock", Resource: "example.com/rdma", IDs: []string{"hca-0"}}
	run(t, unrelated)
	defer unrelated.Stop()
	p := nvidia(dir, "nvidiaGPU-1700000000.sock") // as GKE's is called
	run(t, p)
	r.await(t, "nvidia.com/gpu: the kubelet has devices of another plugin for nvidia.com/gpu, such as GPU-a. Berth leaves the resource to it: run only one of the two on a node")
	awaitBoth(t, k, gpus, 2, 2)
	p.Stop()
	r.await(t, "nvidia.com/gpu: ")
	await(t, k, gpus, 8, 8)
}

// The kubelet keeps reading the list of a plugin that was replaced, and drops
// the new one when the old one goes. Nobody tells the new one.
func TestTheEndOfAnOlderPluginTakesTheResourceOnlyForAMoment(t *testing.T) {
	dir, r := folder(t), make(reports, 1000)
	k := start(t, dir)
	p := nvidia(dir, "some.sock") // so that it is not seen before
	run(t, p)
	await(t, k, gpus, 2, 2)
	serve(t, deviceplugin.Options{Dir: dir, Foreign: r.tell}.Quick(), offering(gpus, "gpu", 8))
	awaitBoth(t, k, gpus, 8, 8)
	n := len(k.Registrations(gpus))
	p.Stop()
	if err := k.Await(wait(t), func() bool { return len(k.Registrations(gpus)) > n }); err != nil {
		t.Fatal(err)
	}
	await(t, k, gpus, 8, 8)
	if err := k.Admit(wait(t), pod("a", map[string]int{gpus: 8})); err != nil {
		t.Fatal(err)
	}
}

func TestASocketThatNobodyServesIsNoPlugin(t *testing.T) {
	dir, r := folder(t), make(reports, 1000)
	k := start(t, dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "nvidia-gpu.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale(t, l)
	n := offering(gpus, "gpu", 8)
	serve(t, deviceplugin.Options{Dir: dir, Foreign: r.tell}, n)
	await(t, k, gpus, 8, 8)
	if len(r) != 0 {
		t.Errorf("reported %q, want nothing", <-r)
	}
	// The next plugin of that name removes it first. If we ended our stream then, the
	// kubelet would drop that next one.
	if err := os.Remove(filepath.Join(dir, "nvidia-gpu.sock")); err != nil {
		t.Fatal(err)
	}
	n.set("example.com/later", devices("later", 1)) // takes longer than a registration that follows from it
	await(t, k, "example.com/later", 1, 1)
	await(t, k, gpus, 8, 8)
	if got := len(k.Registrations(gpus)); got != 1 {
		t.Errorf("%d registrations, want the first only", got)
	}
}

func TestAKubeletRestartDoesNotMakeThemFight(t *testing.T) {
	dir, r := folder(t), make(reports, 1000)
	k := start(t, dir)
	p := nvidia(dir, "nvidia-gpu.sock")
	run(t, p)
	// Long enough for the other to begin again, however slow the machine is.
	serve(t, deviceplugin.Options{Dir: dir, Foreign: r.tell}.Returning(5*time.Second), offering(gpus, "gpu", 8))
	r.await(t, theirs)
	for range 5 {
		if err := k.Restart(); err != nil {
			t.Fatal(err)
		}
		p.Stop() // it makes its servers anew, as NVIDIA's does
		p = nvidia(dir, "nvidia-gpu.sock")
		run(t, p)
		await(t, k, gpus, 2, 2)
	}
	for _, reg := range k.Registrations(gpus) {
		if reg.Endpoint != "nvidia-gpu.sock" {
			t.Errorf("%s registered while another plugin had the resource", reg.Endpoint)
		}
	}
	p.Stop()
	r.await(t, "nvidia.com/gpu: ")
	await(t, k, gpus, 8, 8)
}

func TestTheSecondOfTwoNodeAgentsStandsBack(t *testing.T) {
	dir, r := folder(t), make(reports, 1000)
	k := start(t, dir)
	stop := serve(t, deviceplugin.Options{Dir: dir}, offering(gpus, "gpu", 8))
	await(t, k, gpus, 8, 8)
	serve(t, deviceplugin.Options{Dir: dir, Foreign: r.tell}.Quick(), offering(gpus, "gpu", 6))
	r.await(t, "nvidia.com/gpu: another node agent of Berth serves nvidia.com/gpu at "+filepath.Join(dir, "berth-nvidia-gpu.sock")+": run only one on a node")
	await(t, k, gpus, 8, 8)
	stop()
	r.await(t, "nvidia.com/gpu: ")
	await(t, k, gpus, 6, 6)
}

func TestAResourceThatGoesWhileAnotherPluginHasItStaysTheOthers(t *testing.T) {
	dir, r := folder(t), make(reports, 1000)
	k := start(t, dir)
	n := offering(gpus, "gpu", 8)
	serve(t, deviceplugin.Options{Dir: dir, Foreign: r.tell}.Quick(), n)
	await(t, k, gpus, 8, 8)
	p := nvidia(dir, "nvidia-gpu.sock")
	run(t, p)
	r.await(t, theirs)
	n.set(gpus, nil)
	n.set("example.com/later", devices("later", 1))
	await(t, k, "example.com/later", 1, 1)
	awaitBoth(t, k, gpus, 2, 2)
	p.Stop()
	r.await(t, "nvidia.com/gpu: ")
	n.set(gpus, devices("gpu", 8))
	await(t, k, gpus, 8, 8)
}

func TestAPluginThatIsDroppedTimeAndAgainDoesNotHurry(t *testing.T) {
	dir := folder(t)
	k := start(t, dir)
	serve(t, deviceplugin.Options{Dir: dir}, offering(gpus, "gpu", 8))
	for range 8 {
		await(t, k, gpus, 8, 8)
		k.Drop(gpus)
	}
	await(t, k, gpus, 8, 8)
	got := k.Registrations(gpus)
	if len(got) != 9 {
		t.Fatalf("%d registrations, want 9", len(got))
	}
	if last := got[8].At.Sub(got[7].At); last < 200e6 {
		t.Errorf("the ninth registration came %s after the eighth, want a delay that has doubled to 256 ms", last)
	}
}

func TestSendReachesTheKubelet(t *testing.T) { // of kubelettest.Plugin
	dir := folder(t)
	k := start(t, dir)
	p := nvidia(dir, "nvidia-gpu.sock")
	run(t, p)
	defer p.Stop()
	await(t, k, gpus, 2, 2)
	if err := p.Send(context.Background(), []string{"GPU-a"}); err != nil {
		t.Fatal(err)
	}
	await(t, k, gpus, 1, 1)
}
