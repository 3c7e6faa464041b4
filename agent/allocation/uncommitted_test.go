package allocation_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/agent/config"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

func TestAPodWithoutACommitmentGetsWhatTheKubeletPicked(t *testing.T) {
	w := newWorld(t, product(t, a100, 4))
	w.settings.Plugin.DeviceListStrategy = []string{config.ListCDICRI}
	w.start()
	p := pod("p", asks("c", whole, 2))
	w.must(w.admit(p, "gpu-1", "gpu-3"))
	w.runs(p, "c", "1 3")
	h := w.node.Holders()
	if len(h) != 1 || h[0].Committed || len(h[0].Devices) != 2 {
		t.Errorf("holders are %+v, want two devices, not committed", h)
	}
	if n := w.node.Differences(); n != 0 {
		t.Errorf("%d differences are counted where nothing was committed", n)
	}
	w.start()
	w.runs(p, "c", "1 3")
}

func TestAPodWithoutACommitmentTakesNothingThatIsCommitted(t *testing.T) {
	w := newWorld(t, product(t, a100, 2))
	w.settings.Plugin.DeviceListStrategy = []string{config.ListCDICRI}
	w.start()
	mine := commits(pod("mine", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(mine, "gpu-0"))
	other := pod("other", asks("c", whole, 1))
	w.must(w.admit(other)) // gpu-1, which stands for the GPU that is committed
	w.runs(other, "c", "0")
	w.runs(mine, "c", "1")
	for _, id := range w.node.Placeholders(whole) {
		if !id.Held {
			t.Errorf("ID %s is not held", id.Name)
		}
	}
}

func TestAPodWithoutACommitmentWaitsForAGPUThatIsFree(t *testing.T) {
	w := newWorld(t, product(t, a100, 1))
	w.settings.Plugin.DeviceListStrategy = []string{config.ListCDICRI}
	w.start()
	share := commits(pod("share", asks("c", memory, 6)), map[string][]string{"c": {w.uuid(0) + " 150 6442450944"}})
	w.must(w.admit(share))
	w.runs(share, "c", "0")
	p := pod("p", asks("c", whole, 1))
	w.must(w.admit(p))
	w.refused(p, "c", notice.ReasonTaken, "container c of pod default/p cannot get its devices of nvidia.com/gpu; all others are allocated or committed")
	w.end(share)
	w.runs(p, "c", "0")
}

func TestSharesOfMemoryAreForCommittedPodsAlone(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	p := pod("p", asks("c", memory, 6))
	w.must(w.admit(p))
	w.refused(p, "c", notice.ReasonMissing, "container c of pod default/p requests a share of a GPU (nvidia.com/gpu-memory: 6 GiB), which only Berth's scheduler can allocate")
}

func TestANodeThatRequiresCommitments(t *testing.T) {
	w := newWorld(t, product(t, a100, 2))
	w.options.Required = true
	w.start()
	p := pod("p", asks("c", whole, 1))
	w.must(w.admit(p))
	w.refused(p, "c", notice.ReasonMissing, "which this node requires: let Berth's scheduler place it (spec.schedulerName is \"default-scheduler\")")
}

func TestSharesOfOneGPUAreCountedTogether(t *testing.T) {
	w := newWorld(t, product(t, a100, 2)).start()
	share := func(name string, gib int, gpu int) *v1.Pod {
		bytes := int64(gib) << 30
		milli := bytes * 1000 / (40 << 30)
		return commits(pod(name, asks("c", memory, gib)), map[string][]string{"c": {w.uuid(gpu) + " " + itoa(milli) + " " + itoa(bytes)}})
	}
	a, b, c := share("a", 24, 1), share("b", 10, 1), share("c", 8, 1)
	for _, p := range []*v1.Pod{a, b, c} {
		w.must(w.admit(p))
	}
	w.runs(a, "c", "1")
	w.runs(b, "c", "1")
	w.refused(c, "c", notice.ReasonTaken, "its GPU has 6 GiB left of 40 GiB")
	whole := commits(pod("whole", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(1)}})
	w.must(w.admit(whole))
	w.refused(whole, "c", notice.ReasonTaken, "its memory is held by pod default/a and pod default/b")
	// With GPU 1 ill, what is left is all of GPU 0.
	w.healthy[w.uuid(1)] = false
	w.set()
	free := 0
	for _, id := range w.node.Placeholders(memory) {
		if id.Device.Healthy && !id.Held {
			free++
		}
	}
	if free != 40 {
		t.Errorf("%d GiB are free and healthy, want 40", free)
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestAnswersAreUpstreamsForEachStrategy(t *testing.T) {
	dev := func(t *testing.T, w *world, paths ...string) {
		for _, path := range paths {
			full := filepath.Join(w.options.DevRoot, path)
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name string
		set  func(*world)
		env  map[string]string
		gpus string
	}{
		{"envvar", func(*world) {}, map[string]string{"NVIDIA_VISIBLE_DEVICES": "UUID"}, ""},
		{
			"envvar with indexes",
			func(w *world) { w.settings.Plugin.DeviceIDStrategy = "index" },
			map[string]string{"NVIDIA_VISIBLE_DEVICES": "1"},
			"",
		},
		{
			"volume mounts", func(w *world) { w.settings.Plugin.DeviceListStrategy = []string{config.ListVolumeMounts} },
			map[string]string{"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"},
			"",
		},
		{
			"device nodes", func(w *world) { w.settings.Plugin.PassDeviceSpecs = true },
			map[string]string{"NVIDIA_VISIBLE_DEVICES": "UUID"},
			"-uvm 1",
		},
		{
			"features", func(w *world) {
				w.settings.GDRCopy, w.settings.GDS, w.settings.MOFED = true, true, true
				w.settings.IMEX.ChannelIDs = []int{0}
			},
			map[string]string{
				"NVIDIA_VISIBLE_DEVICES": "UUID", "NVIDIA_GDRCOPY": "enabled", "NVIDIA_GDS": "enabled", "NVIDIA_MOFED": "enabled",
				"NVIDIA_IMEX_CHANNELS": "0",
			},
			"",
		},
		{
			"CDI", func(w *world) { w.settings.Plugin.DeviceListStrategy = []string{config.ListCDIAnnotations} },
			map[string]string{"NVIDIA_VISIBLE_DEVICES": "void", "DRIVER": "570.124.06"},
			"1",
		},
		{
			"CDI with features", func(w *world) {
				w.settings.Plugin.DeviceListStrategy = []string{config.ListCDICRI}
				w.settings.GDRCopy, w.settings.GDS = true, true
			},
			map[string]string{"NVIDIA_VISIBLE_DEVICES": "void", "DRIVER": "570.124.06"},
			"-fs0 /dev/gdrdrv 1",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, product(t, a100, 4))
			dev(t, w, "dev/nvidia-uvm", "dev/gdrdrv", "dev/nvidia-fs0")
			tt.set(w)
			w.start()
			p := pod("p", asks("c", whole, 1))
			w.must(w.admit(p, "gpu-1"))
			w.runs(p, "c", tt.gpus)
			_, env, err := w.sees(p, "c")
			w.must(err)
			for k, v := range tt.env {
				tt.env[k] = strings.ReplaceAll(v, "UUID", w.uuid(1))
			}
			tt.env["BERTH_DEVICES"] = w.uuid(1)
			if diff := cmp.Diff(tt.env, env); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			// In mode kubelet the kubelet has the same answer, at once.
			w.options.Kubelet, w.dir = true, t.TempDir()
			w.options.CDIDir = w.dir
			w.forget("uid-p")
			w.start()
			w.must(w.node.ReadDriver(context.Background()))
			w.must(w.admit(p, w.uuid(1)))
			w.runs(p, "c", tt.gpus)
			_, env, err = w.sees(p, "c")
			w.must(err)
			delete(tt.env, "BERTH_DEVICES")
			if diff := cmp.Diff(tt.env, env); diff != "" {
				t.Errorf("environment in mode kubelet (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMPSComesWithShares(t *testing.T) {
	w := newWorld(t, product(t, a100, 1))
	w.settings.Strategy, w.settings.Replicas = gpu.SharingMPS, map[string]int{whole: 4}
	var asked []sharing.Device
	w.options.MPS = func(shares []sharing.Device) (*cdi.ContainerEdits, error) {
		asked = shares
		return &cdi.ContainerEdits{
			Env:    []string{"CUDA_MPS_PIPE_DIRECTORY=/mps/pipe"},
			Mounts: []*cdi.Mount{{HostPath: "/run/nvidia/mps/shm", ContainerPath: "/dev/shm"}},
		}, nil
	}
	w.start()
	p := commits(pod("p", asks("c", whole, 1)), map[string][]string{"c": {w.uuid(0) + " 250 10737418240"}})
	w.must(w.admit(p))
	w.runs(p, "c", "0")
	if _, env, err := w.sees(p, "c"); env["CUDA_MPS_PIPE_DIRECTORY"] != "/mps/pipe" || err != nil {
		t.Errorf("environment is %v, %v", env, err)
	}
	if len(asked) != 1 || asked[0].MemoryBytes != 10<<30 {
		t.Errorf("MPS is asked for %+v, want a quarter of 40 GiB", asked)
	}
}

// NVIDIA/k8s-device-plugin#1105: more than one replica for a container is
// refused where failRequestsGreaterThanOne is on, in upstream's words.
func TestSeveralSharesForOneContainer(t *testing.T) {
	w := newWorld(t, product(t, a100, 2))
	w.settings.Strategy, w.settings.Replicas = gpu.SharingTimeSlicing, map[string]int{whole: 4}
	w.settings.FailRequestsGreaterThanOne = true
	w.start()
	p := pod("p", asks("c", whole, 2))
	err := w.admit(p)
	if err == nil || err.Error() != "invalid request: maximum request size for shared resources is 1; found 2" {
		t.Errorf("Allocate of two shares: %v", err)
	}
	if _, err := w.node.Allocate(context.Background(), whole, [][]string{{"GPU-nowhere"}}); err == nil || err.Error() != "invalid request: unknown device: GPU-nowhere" {
		t.Errorf("Allocate of an unknown device: %v", err)
	}
	w.settings.FailRequestsGreaterThanOne = false
	w.set()
	w.must(w.admit(p, "gpu-0", "gpu-1"))
	w.runs(p, "c", "")
	if _, env, err := w.sees(p, "c"); env["NVIDIA_VISIBLE_DEVICES"] != w.uuid(0) || err != nil {
		t.Errorf("two shares of one GPU are told as %v, %v", env, err)
	}
}

func TestMIGDevicesByTheirOwnResource(t *testing.T) {
	gpus := product(t, a100, 1)
	p, _ := gpu.Find(a100)
	cut, err := gpu.Layout(p, []string{"1g.5gb", "1g.5gb", "3g.20gb"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range cut {
		cut[i].UUID = "MIG-" + string(rune('a'+i))
	}
	gpus[0].MIGEnabled, gpus[0].MIG = true, cut
	w := newWorld(t, gpus)
	w.settings.MIGStrategy = gpu.MIGMixed
	w.settings.Plugin.DeviceListStrategy = []string{config.ListCDICRI}
	w.start()
	small := cut[2]
	c := commits(pod("c", asks("c", "nvidia.com/mig-1g.5gb", 1)), map[string][]string{"c": {small.UUID + " 142 " + itoa(small.MemoryBytes)}})
	w.must(w.admit(c, "mig-1g.5gb-0"))
	w.runs(c, "c", "-caps/nvidia-cap2 0")
	other := pod("other", asks("c", "nvidia.com/mig-1g.5gb", 1, "nvidia.com/mig-3g.20gb", 1))
	w.must(w.admit(other))
	w.runs(other, "c", "-caps/nvidia-cap0 -caps/nvidia-cap1 0")
	// One MIG device that fails takes only its own id along.
	w.healthy[cut[1].UUID] = false
	w.set()
	ill := 0
	for resource, list := range w.node.Offers() {
		for _, d := range list {
			if !d.Healthy {
				ill++
				t.Logf("%s of %s is unhealthy", d.ID, resource)
			}
		}
	}
	if ill != 1 {
		t.Errorf("%d IDs are unhealthy, want 1", ill)
	}
}

func TestPreferIsNearAndFree(t *testing.T) {
	gpus := product(t, a100, 8)
	for i := range gpus {
		gpus[i].Clique, gpus[i].NUMANode = 1+i/4, i/2
	}
	w := newWorld(t, gpus).start()
	all := []string{"gpu-7", "gpu-6", "gpu-5", "gpu-4", "gpu-3", "gpu-2", "gpu-1", "gpu-0"}
	for _, tt := range []struct {
		name            string
		available, must []string
		n               int
		want            []string
	}{
		{"the first pair of a NUMA node", all, nil, 2, []string{"gpu-0", "gpu-1"}},
		{"the smallest group that is enough", []string{"gpu-0", "gpu-1", "gpu-2", "gpu-6", "gpu-7"}, nil, 2, []string{"gpu-6", "gpu-7"}},
		{"what goes with what must be", all, []string{"gpu-5"}, 2, []string{"gpu-5", "gpu-4"}},
		{"names that are new to us", []string{"gpu-0", "gpu-90", "gpu-91"}, nil, 2, []string{"gpu-0", "gpu-90"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := w.node.Prefer(whole, tt.available, tt.must, tt.n)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("Prefer(%v, %v, %d), %v (-want +got):\n%s", tt.available, tt.must, tt.n, err, diff)
			}
		})
	}
	if _, err := w.node.Prefer(whole, all[:2], nil, 3); err == nil || err.Error() != "not enough available devices to satisfy allocation" {
		t.Errorf("Prefer of more than there are: %v", err)
	}
	// GPU 0 has a share by memory: it is chosen last.
	share := commits(pod("share", asks("c", memory, 6)), map[string][]string{"c": {w.uuid(0) + " 150 6442450944"}})
	w.must(w.admit(share))
	_, err := w.run(share, "c")
	w.must(err)
	got, err := w.node.Prefer(whole, all, nil, 7)
	if err != nil || strings.Contains(strings.Join(got, " ")+" ", "gpu-0 ") {
		t.Errorf("Prefer(7 of 8) = %v, %v; want all but gpu-0", got, err)
	}
	if got, err = w.node.Prefer(whole, all, nil, 8); len(got) != 8 || err != nil {
		t.Errorf("Prefer(8 of 8) = %v, %v", got, err)
	}
}
