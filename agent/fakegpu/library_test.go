package fakegpu_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// parse reads a file that is right.
func parse(t testing.TB, text string, devices ...string) fakegpu.File {
	t.Helper()
	f, err := fakegpu.Parse("gpus.yaml", []byte(text), devices...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// node makes the GPUs of text, and the driver that asks them.
func node(t testing.TB, text string, devices ...string) (*fakegpu.Library, *nvml.Driver) {
	t.Helper()
	l := fakegpu.New(parse(t, text, devices...), fakegpu.Options{Node: "n1"})
	t.Cleanup(func() { _ = l.Close() })
	return l, nvml.NewDriver(l)
}

// migProducts lists the products that MIG can cut.
func migProducts() []gpu.Product {
	return slices.DeleteFunc(gpu.Products(), func(p gpu.Product) bool { return len(p.Profiles) == 0 })
}

func group(p gpu.Product, profiles []string) string {
	return "gpus: [{product: " + p.Name + ", autoReset: true, mig: [" + strings.Join(profiles, ", ") + "]}]"
}

// TestTheDriverTellsTheTablesBack: what NVML's calls give, one by one, makes the
// table of profiles that the fake was built from, names too.
func TestTheDriverTellsTheTablesBack(t *testing.T) {
	for _, p := range migProducts() {
		_, d := node(t, group(p, nil))
		got := d.Snapshot().GPUs[0]
		if diff := cmp.Diff(p.Profiles, got.Profiles); diff != "" {
			t.Errorf("profiles of %s (-core/gpu +driver):\n%s", p.Name, diff)
		}
		if got.Multiprocessors != p.Multiprocessors || got.ComputeSlices != p.ComputeSlices {
			t.Errorf("%s: %d multiprocessors and %d slices, want %d and %d", p.Name,
				got.Multiprocessors, got.ComputeSlices, p.Multiprocessors, p.ComputeSlices)
		}
	}
}

// TestMIGIsCutAsLayoutSays partitions at random, with core/gpu as the twin: the same
// is possible, and the same comes of it. What is refused leaves the GPU as it
// was.
func TestMIGIsCutAsLayoutSays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	products := migProducts()
	refused := 0
	for range 300 {
		p := products[r.IntN(len(products))]
		_, d := node(t, group(p, nil))
		want := d.Snapshot().GPUs[0].GPU
		for range 4 {
			var profiles []string
			for range r.IntN(6) {
				f := p.Profiles[r.IntN(len(p.Profiles))]
				name := f.Name
				if n := 1 + r.IntN(f.Slices); r.IntN(3) == 0 { // a compute instance, perhaps a smaller one
					name = strconv.Itoa(n) + "c." + name
				}
				profiles = append(profiles, name)
			}
			err1 := gpu.Cut(&want, p, profiles)
			err2 := d.PartitionMIG(want.UUID, profiles)
			if (err1 == nil) != (err2 == nil) {
				t.Fatalf("cut %s into %v: core/gpu says %v, the driver %v", p.Name, profiles, err1, err2)
			}
			if err1 != nil {
				refused++
			}
			if diff := cmp.Diff(want.MIG, d.Snapshot().GPUs[0].MIG, equalEmpty); diff != "" {
				t.Fatalf("%s cut into %v (-core/gpu +driver):\n%s", p.Name, profiles, diff)
			}
		}
	}
	if refused < 50 {
		t.Errorf("only %d of 1200 were refused: the test shows little", refused)
	}
}

var equalEmpty = cmp.Transformer("nil", func(m []gpu.MIGDevice) []gpu.MIGDevice { return append([]gpu.MIGDevice{}, m...) })

// TestPlacementsNeverConflict makes and removes GPU instances by hand, where
// nvidia-smi would, and counts slices the slow way.
func TestPlacementsNeverConflict(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, p := range migProducts() {
		l, d := node(t, group(p, nil))
		d.Snapshot()
		dev, err := l.Device(0)
		if err != nil {
			t.Fatal(err)
		}
		type made struct {
			id int
			f  gpu.Profile
			at int
		}
		var have []made
		for range 500 {
			if len(have) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(have))
				if err := dev.DestroyGPUInstance(have[i].id); err != nil {
					t.Fatalf("%s: DestroyGPUInstance(%d) = %v", p.Name, have[i].id, err)
				}
				have = slices.Delete(have, i, i+1)
				continue
			}
			f := p.Profiles[r.IntN(len(p.Profiles))]
			at := r.IntN(p.MemorySlices)
			// The slow way: every memory slice by itself, and every budget.
			var slice [16]int
			computes, alike, ofa, all, some := f.Slices, 1, f.OFA, 0, 0
			for _, m := range append(slices.Clone(have), made{f: f, at: at}) {
				for s := range m.f.Size {
					slice[m.at+s]++
				}
				switch m.f.Suffix() {
				case "+me.all":
					all++
				case "-me":
				default:
					some++
				}
			}
			for _, m := range have {
				computes += m.f.Slices
				ofa += m.f.OFA
				if m.f.ID == f.ID {
					alike++
				}
			}
			want := error(nil)
			switch {
			case !slices.Contains(f.Placements, at):
				want = nvml.InvalidArgument
			case slices.Max(slice[:]) > 1, computes > p.ComputeSlices, alike > f.Max, ofa > 1, all > 0 && all+some > 1:
				want = nvml.InsufficientResources
			}
			in, err := dev.CreateGPUInstance(f.ID, nvml.Placement{Start: at * max(1, p.SliceUnits), Size: f.Size * max(1, p.SliceUnits)})
			if !errors.Is(err, want) {
				t.Fatalf("%s with %+v: make %s at %d = %v, want %v", p.Name, have, f.Name, at, err, want)
			}
			if err == nil {
				if slices.ContainsFunc(have, func(m made) bool { return m.id == in.ID }) {
					t.Fatalf("%s: GPU instance %d twice", p.Name, in.ID)
				}
				have = append(have, made{in.ID, f, at})
			}
		}
	}
}

func TestMIGModeWaitsForAResetOnAmpere(t *testing.T) {
	const a100 = "gpus: [{product: NVIDIA A100-SXM4-40GB}]\n"
	l, d := node(t, a100)
	uuid := d.Snapshot().GPUs[0].UUID
	needsReset, err := d.SetMIGMode(uuid, true)
	if err != nil || !needsReset {
		t.Fatalf("SetMIGMode = %v, %v, want true: it is pending", needsReset, err)
	}
	if g := d.Snapshot().GPUs[0]; g.MIGEnabled || !g.MIGPending {
		t.Errorf("before the reset: enabled %v, pending %v, want false, true", g.MIGEnabled, g.MIGPending)
	}
	if err := d.PartitionMIG(uuid, []string{"1g.5gb"}); !errors.Is(err, nvml.InvalidState) {
		t.Errorf("PartitionMIG = %v, want InvalidState", err)
	}
	l.Apply(parse(t, a100+"reset: [{gpu: 0}]"))
	if g := d.Snapshot().GPUs[0]; !g.MIGEnabled || g.MIGPending {
		t.Errorf("after the reset: enabled %v, pending %v, want true, false", g.MIGEnabled, g.MIGPending)
	}
	if err := d.PartitionMIG(uuid, []string{"1g.5gb"}); err != nil {
		t.Errorf("PartitionMIG = %v", err)
	}
	_, h := node(t, "gpus: [{product: NVIDIA H100 80GB HBM3}]")
	if needsReset, err := h.SetMIGMode(h.Snapshot().GPUs[0].UUID, true); err != nil || needsReset {
		t.Errorf("SetMIGMode on Hopper = %v, %v, want false: it is in force", needsReset, err)
	}
}

func TestAMIGDeviceInUseIsNotRemoved(t *testing.T) {
	_, d := node(t, `
gpus: [{product: NVIDIA H100 80GB HBM3, mig: [1g.10gb, 1g.10gb, 3g.40gb]}]
loads: [{gpu: 0, mig: 1, pid: 7}]`)
	before := d.Snapshot()
	g := before.GPUs[0]
	for name, err := range map[string]error{
		"PartitionMIG": d.PartitionMIG(g.UUID, []string{"7g.80gb"}),
		"SetMIGMode": func() error {
			_, err := d.SetMIGMode(g.UUID, false)
			return err
		}(),
	} {
		if !errors.Is(err, nvml.InUse) {
			t.Errorf("%s = %v, want InUse", name, err)
		}
	}
	if diff := cmp.Diff(before, d.Snapshot()); diff != "" {
		t.Errorf("after what was refused (-before +after):\n%s", diff)
	}
	// What is wanted is there already: nothing is touched, and so nothing refused.
	if err := d.PartitionMIG(g.UUID, []string{"3g.40gb", "1g.10gb", "1g.10gb"}); err != nil {
		t.Errorf("PartitionMIG into what is there = %v", err)
	}
}

func TestGPUsComeAndGoWithTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const four = "gpus: [{product: Tesla T4, count: 4}]\n"
		l, d := node(t, four)
		all := d.Snapshot()
		l.Apply(parse(t, four+"removed: [{gpu: 1, after: 1m}]\nlost: [{gpu: 2, after: 1m}]"))
		<-l.Changes()
		if got := d.Snapshot(); len(got.GPUs) != 4 || got.GPUs[2].Lost {
			t.Errorf("before their time: %d GPUs, lost %v, want 4, false", len(got.GPUs), got.GPUs[2].Lost)
		}
		<-l.Changes() // a minute later
		got := d.Snapshot()
		if len(got.GPUs) != 3 || got.GPUs[0].UUID != all.GPUs[0].UUID || got.GPUs[1].UUID != all.GPUs[2].UUID || got.GPUs[2].UUID != all.GPUs[3].UUID {
			t.Fatalf("after a GPU was removed: %+v", got.GPUs)
		}
		if g := got.GPUs[1]; !g.Lost || g.Healthy || g.Product != "Tesla T4" {
			t.Errorf("the lost GPU: %+v, want Lost, not Healthy, and what was known of it", g)
		}
		samples, _, err := d.Samples(time.Now())
		if err != nil || len(samples) != 2 {
			t.Errorf("Samples = %d, %v, want those of the 2 that answer", len(samples), err)
		}
		l.Apply(parse(t, four))
		if diff := cmp.Diff(all, d.Snapshot()); diff != "" {
			t.Errorf("when all are back (-before +after):\n%s", diff)
		}
	})
}

func TestXidsComeAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const h100 = "gpus: [{product: NVIDIA H100 80GB HBM3, count: 2, mig: [1g.10gb]}]\n"
		l, d := node(t, h100)
		s := d.Snapshot()
		var got []nvml.Event
		began := time.Now()
		done := make(chan error)
		stop := make(chan struct{})
		go func() {
			done <- d.Watch(t.Context(), nvml.Listener{Event: func(e nvml.Event) {
				e.At = time.Time{}.Add(e.At.Sub(began))
				if got = append(got, e); len(got) == 2 {
					close(stop)
				}
			}, Changed: func() {}, Stuck: func(err error) { t.Error(err) }})
		}()
		synctest.Wait()
		l.Apply(parse(t, h100+"xid: [{gpu: 1, code: 31, after: 90s}, {gpu: 0, mig: 0, code: 94, after: 5s}]"))
		<-stop
		want := []nvml.Event{
			{UUID: s.GPUs[0].UUID, Xid: 94, GI: s.GPUs[0].MIG[0].GI, CI: 0, At: time.Time{}.Add(5 * time.Second)},
			{UUID: s.GPUs[1].UUID, Xid: 31, GI: -1, CI: -1, At: time.Time{}.Add(90 * time.Second)},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		samples, _, _ := d.Samples(time.Now())
		var xids []int
		for _, x := range samples {
			xids = append(xids, x.Reading.Xid)
		}
		// GPU 0 and its MIG device show the Xid of the device; of GPU 1, all.
		if !slices.Equal(xids, []int{94, 94, 31, 31}) {
			t.Errorf("last Xids: %v, want 94 94 31 31", xids)
		}
		// The driver goes: Watch ends, so the process does.
		l.Apply(parse(t, h100+"driver: {unloaded: true}"))
		if err := <-done; !errors.Is(err, nvml.ErrReload) {
			t.Errorf("Watch = %v, want ErrReload", err)
		}
	})
}

func TestADriverThatLacksAFunctionIsFine(t *testing.T) {
	_, d := node(t, `
driver: {missing: [nvmlDeviceSetMemoryLimits_v1, nvmlDeviceGetRemappedRows, nvmlDeviceGetTotalEnergyConsumption, nvmlGpmQueryDeviceSupport]}
gpus: [{product: NVIDIA H100 80GB HBM3}]`)
	uuid := d.Snapshot().GPUs[0].UUID
	if err := d.SetMemoryLimit(uuid, "/kubepods/pod1", 1<<30); !errors.Is(err, nvml.FunctionNotFound) {
		t.Errorf("SetMemoryLimit = %v, want FunctionNotFound", err)
	}
	if err := d.Probe(uuid); err != nil {
		t.Errorf("Probe = %v", err)
	}
	samples, _, err := d.Samples(time.Now())
	want := []string{
		"CorrectableRemappedRows", "DRAMActiveRatio", "EnergyMillijoules", "NVLinkBytesPerSecond", "PCIeRxBytesPerSecond",
		"PCIeTxBytesPerSecond", "RemappedRows", "RowRemapFailed", "TensorActiveRatio",
	}
	if err != nil || !slices.Equal(samples[0].Absent, want) {
		t.Errorf("Samples: absent %v, %v, want %v", samples[0].Absent, err, want)
	}
}

func TestAProbeAsksForRowsAndForWhatTheDriverWants(t *testing.T) {
	const a100 = "gpus: [{product: NVIDIA A100-SXM4-40GB, mig: [1g.5gb]}]\n"
	l, d := node(t, a100)
	mig := d.Snapshot().GPUs[0].MIG[0].UUID
	for _, test := range []struct{ name, more, want string }{
		{"a row that waits for a reset is no fault", "remap: [{gpu: 0, pending: true}]", ""},
		{"a row that could not be replaced is one", "remap: [{gpu: 0, failed: true}]", "could not be remapped"},
		{"the driver asks for a reset", "needs: [{gpu: 0, action: reset}]", "the GPU needs a reset"},
		{"it was reset", "needs: [{gpu: 0, action: reset}]\nreset: [{gpu: 0}]", ""},
		{"a reset is no restart", "needs: [{gpu: 0, action: reboot}]\nreset: [{gpu: 0}]", "that the node be restarted"},
	} {
		l.Apply(parse(t, a100+test.more))
		err := d.Probe(mig)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Probe = %v, want %q", test.name, err, test.want)
		}
	}
}

// TestStateOutlivesTheProcess: MIG devices and counters stay, an Xid that came
// is not told again, and a file that was edited meanwhile wins.
func TestStateOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "gpus.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func() (*fakegpu.Library, *nvml.Driver) {
		t.Helper()
		l, err := fakegpu.Open(file, fakegpu.Options{Node: "n1", State: filepath.Join(dir, "state")})
		if err != nil {
			t.Fatal(err)
		}
		return l, nvml.NewDriver(l)
	}
	write("gpus: [{product: NVIDIA H200, count: 2, mig: [7g.141gb]}]")
	l, d := open()
	s := d.Snapshot()
	if err := d.PartitionMIG(s.GPUs[0].UUID, []string{"3g.71gb", "1g.18gb"}); err != nil {
		t.Fatal(err)
	}
	want := d.Snapshot()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, d = open()
	if diff := cmp.Diff(want, d.Snapshot()); diff != "" {
		t.Errorf("in the next process (-before +after):\n%s", diff)
	}
	// GPU 1's wish is the same as ever; that both be partitioned again is another.
	write("gpus: [{product: NVIDIA H200, count: 2, mig: [2g.35gb]}]")
	for range l.Changes() {
		if m := d.Snapshot().GPUs[0].MIG; len(m) == 1 && m[0].Profile == "2g.35gb" {
			break
		}
	}
	// A file that is wrong leaves all as it is, and does not end the process.
	write("gpus: [{product: NVIDIA H2000}]")
	if m := d.Snapshot().GPUs[0].MIG; len(m) != 1 {
		t.Errorf("after a file that is wrong: %+v", m)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAProcessThatStartsOnAWrongFileKeepsWhatTheLastOneHad: the child of an agent may
// end and be started again while somebody edits the file.
func TestAProcessThatStartsOnAWrongFileKeepsWhatTheLastOneHad(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "gpus.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := fakegpu.Options{Node: "n1", State: filepath.Join(dir, "state")}
	write("gpus: [{product: NVIDIA H500}]")
	if _, err := fakegpu.Open(file, o); err == nil {
		t.Fatal("a wrong file is opened, and no process had a good one before")
	}
	write("gpus: [{product: NVIDIA H200, count: 2}]")
	for _, spoil := range []func(){
		func() { write("gpus: [{product: NVIDIA H500}]") },
		func() { write("gpus: [{product: NVIDIA H200, number: 2}]") },
		func() {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
	} {
		l, err := fakegpu.Open(file, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(nvml.NewDriver(l).Snapshot().GPUs); got != 2 {
			t.Errorf("there are %d GPUs, want 2", got)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		spoil()
	}
	l, err := fakegpu.Open(file, fakegpu.Options{Node: "n1"})
	if err == nil {
		_ = l.Close()
		t.Error("without a state a file that is not there is opened")
	}
}
