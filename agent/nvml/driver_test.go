package nvml_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/agent/nvml"
)

// fake makes the GPUs of text.
func fake(t testing.TB, text string) *fakegpu.Library {
	t.Helper()
	f, err := fakegpu.Parse("gpus.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	l := fakegpu.New(f, fakegpu.Options{Node: "n1"})
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestGPUsThatReachOneAnotherOverNVLinkAreAClique(t *testing.T) {
	for _, test := range []struct {
		name, gpus string
		cliques    []int
		links      []int // of the first GPU to each of the others
	}{
		{"a GPU alone is in none", "[{product: NVIDIA H200}]", []int{0}, nil},
		{"without NVLink there are none", "[{product: NVIDIA L40S, count: 3}]", []int{0, 0, 0}, []int{0, 0}},
		{"through a switch, every link reaches every GPU", "[{product: NVIDIA H200, count: 3}]", []int{1, 1, 1}, []int{18, 18}},
		// Links in pairs to the neighbors one, two and three steps away; of eight,
		// the one opposite is reached through others.
		{"direct links join neighbors", "[{product: Tesla V100-SXM2-32GB, count: 8}]", []int{1, 1, 1, 1, 1, 1, 1, 1}, []int{1, 1, 1, 0, 1, 1, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := nvml.NewDriver(fake(t, "gpus: "+test.gpus)).Snapshot()
			var cliques, links []int
			for i, g := range s.GPUs {
				cliques = append(cliques, g.Clique)
				if i > 0 {
					links = append(links, s.GPUs[0].Links[g.UUID])
				}
			}
			if !slices.Equal(cliques, test.cliques) || !slices.Equal(links, test.links) {
				t.Errorf("cliques %v and links %v, want %v and %v", cliques, links, test.cliques, test.links)
			}
		})
	}
}

// upgraded gives these answers to the first calls of Init.
type upgraded struct {
	nvml.Library
	inits []error
}

func (u *upgraded) Init() error {
	if len(u.inits) == 0 {
		return u.Library.Init()
	}
	err := u.inits[0]
	u.inits = u.inits[1:]
	return err
}

// TestALibraryOfAnotherDriverIsLetGo: what an attempt has loaded stays in memory,
// and never fits the driver that came after it.
func TestALibraryOfAnotherDriverIsLetGo(t *testing.T) {
	for _, test := range []struct {
		name    string
		inits   []error
		reloads bool
	}{
		{"a driver that was not loaded comes back as another", []error{nvml.DriverNotLoaded, nvml.LibRMVersionMismatch}, true},
		{"a driver that was not loaded comes back as it was", []error{nvml.DriverNotLoaded, nvml.DriverNotLoaded}, false},
		{"a driver that is installed is found", []error{nvml.LibraryNotFound}, false},
		// A new process would meet the same, again and again.
		{"a node that waits for its restart", []error{nvml.LibRMVersionMismatch, nvml.LibRMVersionMismatch}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := nvml.NewDriver(&upgraded{fake(t, "gpus: [{product: NVIDIA H200}]"), test.inits})
			var err error
			for _, want := range test.inits {
				if err = d.Open(); !errors.Is(err, want) {
					t.Errorf("Open() = %v, want %v", err, want)
				}
			}
			if errors.Is(err, nvml.ErrReload) != test.reloads {
				t.Errorf("Open() = %v, want an end of the process: %v", err, test.reloads)
			}
			if err := d.Open(); (err == nil) == test.reloads {
				t.Errorf("Open() with the driver there = %v", err)
			}
		})
	}
}

// halfway is a driver that is replaced between two calls: after the GPUs have been
// counted, before they are named.
type halfway struct {
	nvml.Library
	replaced bool
}

func (h *halfway) Device(i int) (nvml.Device, error) {
	if h.replaced {
		return nil, nvml.LibRMVersionMismatch
	}
	return h.Library.Device(i)
}

func TestNoGPUIsLostByAnUpgradeOfTheDriver(t *testing.T) {
	lib := &halfway{Library: fake(t, "gpus: [{product: NVIDIA H200, count: 2}]")}
	d := nvml.NewDriver(lib)
	if s := d.Snapshot(); len(s.GPUs) != 2 {
		t.Fatalf("%d GPUs, want 2", len(s.GPUs))
	}
	lib.replaced = true
	nobody := nvml.Listener{Event: func(nvml.Event) {}, Changed: func() {}, Stuck: func(error) {}}
	if err := d.Watch(t.Context(), nobody); !errors.Is(err, nvml.ErrReload) {
		t.Errorf("Watch = %v, want ErrReload", err)
	}
	if news := d.Losses(); len(news) > 0 {
		t.Errorf("%+v is to be told of, want nothing", news)
	}
}

func TestASampleNamesWhatTheDriverDoesNotGive(t *testing.T) {
	prof := []string{"DRAMActiveRatio", "NVLinkBytesPerSecond", "PCIeRxBytesPerSecond", "PCIeTxBytesPerSecond", "TensorActiveRatio"}
	media := []string{"DecoderRatio", "EncoderRatio", "MemoryUtilization"}
	sorted := func(lists ...[]string) []string { return slices.Sorted(slices.Values(slices.Concat(lists...))) }
	for _, test := range []struct {
		name, gpu  string
		whole, mig []string
	}{
		{"Hopper gives all", "{product: NVIDIA H200}", nil, nil},
		{"Hopper with MIG gives utilization by GPM", "{product: NVIDIA H200, mig: [1g.18gb]}", media, media},
		{"Ampere has no GPM", "{product: NVIDIA A100-SXM4-40GB}", prof, nil},
		// So nothing on an Ampere GPU with MIG tells how busy it is.
		{
			"Ampere with MIG gives no utilization", "{product: NVIDIA A100-SXM4-40GB, mig: [1g.5gb]}",
			sorted(prof, media, []string{"UtilizationRatio"}), sorted(prof, media, []string{"UtilizationRatio"}),
		},
		{
			"Turing remaps no rows, has no NVLink and no sensor in its memory", "{product: Tesla T4}",
			sorted(prof, []string{"CorrectableRemappedRows", "MemoryTempCelsius", "NVLinkBytes", "RemappedRows", "RowRemapFailed"}), nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := nvml.NewDriver(fake(t, "gpus: ["+test.gpu+"]"))
				d.Snapshot()
				time.Sleep(15 * time.Second) // between scrapes, in the bubble's time
				samples, _, err := d.Samples(time.Now())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.whole, samples[0].Absent); diff != "" {
					t.Errorf("absent of the GPU (-want +got):\n%s", diff)
				}
				if len(samples) > 1 {
					if diff := cmp.Diff(test.mig, samples[1].Absent); diff != "" {
						t.Errorf("absent of the MIG device (-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

// TestSamplesAreWhatTheGPUsShow compares with the readings that the fake driver
// cuts into NVML's calls and units: nothing is lost but the rounding.
func TestSamplesAreWhatTheGPUsShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := nvml.NewDriver(fake(t, `
gpus: [{product: NVIDIA H100 80GB HBM3, count: 2, mig: [3g.40gb, 1g.10gb]}, {product: NVIDIA H100 80GB HBM3, count: 2}]
loads:
- {gpu: 0, mig: 0, pid: 1, utilization: 0.75, memoryMiB: 2048}
- {gpu: 2, pid: 2, utilization: 0.5, memoryMiB: 1024, peers: 1}
- {gpu: 3, pid: 2, utilization: 0.5, memoryMiB: 1024, peers: 1}
thermal: [{gpu: 3}]`))
		s := d.Snapshot()
		time.Sleep(time.Minute)
		samples, drift, err := d.Samples(time.Now())
		if err != nil || drift || len(samples) != 8 {
			t.Fatalf("Samples = %d, drift %v, %v, want 8, false", len(samples), drift, err)
		}
		of := map[string]nvml.Sample{}
		for _, x := range samples {
			of[x.UUID] = x
		}
		near := func(what string, got, want, by float64) {
			t.Helper()
			if got < want-by || got > want+by {
				t.Errorf("%s = %v, want %v +-%v", what, got, want, by)
			}
		}
		mig := of[s.GPUs[0].MIG[0].UUID]
		near("utilization of the MIG device", mig.Reading.UtilizationRatio, 0.75, 0.02)
		near("tensor ratio of the MIG device", mig.Reading.TensorActiveRatio, 0.45*0.75, 0.01)
		near("memory of the MIG device, MiB", float64(mig.Reading.MemoryUsedBytes>>20), 2048+13, 0)
		// 3 of 7 slices at 0.75.
		near("utilization of its GPU", of[s.GPUs[0].UUID].Reading.UtilizationRatio, 0.75*3/7, 0.02)
		near("power of the MIG device is its GPU's", mig.Reading.PowerWatts, of[s.GPUs[0].UUID].Reading.PowerWatts, 0)
		idle := of[s.GPUs[0].MIG[1].UUID]
		near("utilization of its sibling", idle.Reading.UtilizationRatio, 0, 0)
		whole := of[s.GPUs[2].UUID]
		near("utilization of a whole GPU", whole.Reading.UtilizationRatio, 0.5, 0.02)
		// 30% of 18 links of 50 GB/s, at half use.
		near("NVLink, GB/s", whole.Reading.NVLinkBytesPerSecond/1e9, 0.3*0.5*18*50, 3)
		near("NVLink in a minute, GB", float64(whole.Reading.NVLinkBytes)/1e9, 60*0.3*0.5*18*50, 1)
		if hot := of[s.GPUs[3].UUID].Reading; !hot.ThermalThrottled || hot.TemperatureCelsius != 92 {
			t.Errorf("the hot GPU: throttled %v at %d C, want true at 92", hot.ThermalThrottled, hot.TemperatureCelsius)
		}
		if diff := cmp.Diff([]nvml.Process{{PID: 2, MemoryBytes: 1 << 30}}, whole.Processes); diff != "" {
			t.Errorf("processes (-want +got):\n%s", diff)
		}
	})
}

// TestASampleSeesMIGDevicesThatOthersCut: nvidia-smi may cut behind our back.
func TestASampleSeesMIGDevicesThatOthersCut(t *testing.T) {
	l := fake(t, "gpus: [{product: NVIDIA H200, mig: [3g.71gb]}]")
	d := nvml.NewDriver(l)
	d.Snapshot()
	dev, err := l.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	in, err := dev.CreateGPUInstance(9, nvml.Placement{Start: 4, Size: 4})
	if err != nil {
		t.Fatal(err)
	}
	// Two compute instances of one slice share a GPU instance of three.
	for range 2 {
		if _, err := dev.CreateComputeInstance(in.ID, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dev.CreateComputeInstance(in.ID, 1); !errors.Is(err, nvml.InsufficientResources) {
		t.Errorf("a compute instance of two slices beside them = %v, want InsufficientResources", err)
	}
	if _, drift, err := d.Samples(time.Now()); err != nil || !drift {
		t.Errorf("Samples: drift %v, %v, want true", drift, err)
	}
	var names []string
	for _, m := range d.Snapshot().GPUs[0].MIG {
		names = append(names, m.Profile)
	}
	if want := []string{"3g.71gb", "1c.3g.71gb", "1c.3g.71gb"}; !slices.Equal(names, want) {
		t.Errorf("profiles %v, want %v", names, want)
	}
}

// brittle is a driver that refuses to make anything from a moment on, for a
// while.
type brittle struct {
	nvml.Library
	bad func() bool
}

type brittleDevice struct {
	nvml.Device
	l *brittle
}

func (b *brittle) Device(i int) (nvml.Device, error) {
	d, err := b.Library.Device(i)
	return &brittleDevice{d, b}, err
}

func (d *brittleDevice) CreateGPUInstance(profile int, at nvml.Placement) (nvml.GPUInstance, error) {
	if d.l.bad() {
		return nvml.GPUInstance{}, nvml.InsufficientResources
	}
	return d.Device.CreateGPUInstance(profile, at)
}

func (d *brittleDevice) CreateComputeInstance(gi, profile int) (int, error) {
	if d.l.bad() {
		return 0, nvml.Unknown
	}
	return d.Device.CreateComputeInstance(gi, profile)
}

// TestACutThatFailsHalfWayIsTakenBack has the driver refuse one call after the
// other: each time the GPU is as it was before, UUIDs and all.
func TestACutThatFailsHalfWayIsTakenBack(t *testing.T) {
	for step := range 6 { // three instances of two calls each
		made := 0
		lib := &brittle{Library: fake(t, "gpus: [{product: NVIDIA H200, mig: [1g.18gb, 2g.35gb, 3g.71gb]}]")}
		lib.bad = func() bool { made++; return made == step+1 }
		d := nvml.NewDriver(lib)
		before := d.Snapshot()
		err := d.PartitionMIG(before.GPUs[0].UUID, []string{"2g.35gb", "2g.35gb", "1g.18gb+me"})
		if err == nil || !strings.Contains(err.Error(), "make a ") {
			t.Fatalf("PartitionMIG with call %d refused = %v", step, err)
		}
		if diff := cmp.Diff(before, d.Snapshot()); diff != "" {
			t.Errorf("after call %d was refused (-before +after):\n%s", step, diff)
		}
	}
	lib := &brittle{Library: fake(t, "gpus: [{product: NVIDIA H200, mig: [1g.18gb]}]"), bad: func() bool { return true }}
	d := nvml.NewDriver(lib)
	err := d.PartitionMIG(d.Snapshot().GPUs[0].UUID, []string{"7g.141gb"})
	if !errors.Is(err, nvml.InsufficientResources) || !strings.Contains(err.Error(), "could not be recreated") {
		t.Errorf("PartitionMIG with every call refused = %v", err)
	}
}

// TestAWaitThatHangsIsNoticed: a driver that never returns from a wait for
// events would leave every later Xid unseen.
func TestAWaitThatHangsIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fake(t, "gpus: [{product: NVIDIA H200}]\nhang: [{call: nvmlEventSetWait_v2, after: 10m}]")
		began := time.Now()
		stuck := make(chan error, 1)
		done := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			done <- nvml.NewDriver(l).Watch(ctx, nvml.Listener{Event: func(nvml.Event) {}, Changed: func() {}, Stuck: func(err error) { stuck <- err }})
		}()
		err := <-stuck
		if took := time.Since(began); took < 10*time.Minute || took > 12*time.Minute || !strings.Contains(err.Error(), "has not returned") {
			t.Errorf("Stuck(%v) after %v, want it a minute after 10m", err, took)
		}
		cancel()
		_ = l.Close() // the fake lets hung calls return
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
}

// TestWatchSeesWhatOthersCut: nvidia-smi mig partitions behind our back, and nobody scrapes.
func TestWatchSeesWhatOthersCut(t *testing.T) {
	for _, tt := range []struct {
		name string
		gpus string
		do   func(t *testing.T, dev nvml.Device)
		want []string
	}{
		{"a device is added", "[{product: NVIDIA H200, mig: [3g.71gb]}]", func(t *testing.T, dev nvml.Device) { cutOne(t, dev, 9, nvml.Placement{Start: 4, Size: 4}, 2) }, []string{"3g.71gb", "3g.71gb"}},
		{"the first is cut", "[{product: NVIDIA H200, mig: []}]", func(t *testing.T, dev nvml.Device) { cutOne(t, dev, 19, nvml.Placement{Start: 0, Size: 1}, 0) }, []string{"1g.18gb"}},
		{"a device is destroyed", "[{product: NVIDIA H200, mig: [3g.71gb]}]", destroyAll, nil},
		{"a device takes the place of another", "[{product: NVIDIA H200, mig: [3g.71gb]}]", func(t *testing.T, dev nvml.Device) {
			destroyAll(t, dev)
			cutOne(t, dev, 19, nvml.Placement{Start: 0, Size: 1}, 0)
		}, []string{"1g.18gb"}},
		{"MIG is turned on", "[{product: NVIDIA H200}]", func(t *testing.T, dev nvml.Device) {
			if _, err := dev.SetMIGMode(true); err != nil {
				t.Fatal(err)
			}
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := fake(t, "gpus: "+tt.gpus)
				d := nvml.NewDriver(l)
				d.Snapshot()
				changes := 0
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				changed := func() {
					changes++
					d.Snapshot() // as the keeper does then
				}
				go func() {
					done <- d.Watch(ctx, nvml.Listener{Event: func(nvml.Event) {}, Changed: changed, Stuck: func(error) {}})
				}()
				time.Sleep(time.Minute)
				synctest.Wait() // a sleep alone orders nothing for the race detector
				if changes != 0 {
					t.Errorf("%d changes of GPUs that nobody touches", changes)
				}
				dev, err := l.Device(0)
				if err != nil {
					t.Fatal(err)
				}
				tt.do(t, dev)
				time.Sleep(6 * time.Second) // one wait for events is 5 s
				synctest.Wait()
				if changes != 1 {
					t.Errorf("%d changes 6 s after it, want 1", changes)
				}
				var names []string
				for _, m := range d.Snapshot().GPUs[0].MIG {
					names = append(names, m.Profile)
				}
				if !slices.Equal(names, tt.want) {
					t.Errorf("profiles %v, want %v", names, tt.want)
				}
				cancel()
				if err := <-done; err != nil {
					t.Errorf("Watch = %v", err)
				}
			})
		})
	}
}

// cutOne does what nvidia-smi mig -cgi PROFILE -C does.
func cutOne(t *testing.T, dev nvml.Device, profile int, at nvml.Placement, shape int) {
	t.Helper()
	in, err := dev.CreateGPUInstance(profile, at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dev.CreateComputeInstance(in.ID, shape); err != nil {
		t.Fatal(err)
	}
}

// destroyAll does what nvidia-smi mig -dci and -dgi do.
func destroyAll(t *testing.T, dev nvml.Device) {
	t.Helper()
	for _, profile := range []int{0, 5, 9, 14, 15, 19, 20} {
		instances, err := dev.GPUInstances(profile)
		if err != nil {
			continue
		}
		for _, in := range instances {
			for shape := range nvml.ComputeInstanceShapes {
				ids, _ := dev.ComputeInstances(in.ID, shape)
				for _, id := range ids {
					if err := dev.DestroyComputeInstance(in.ID, id); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := dev.DestroyGPUInstance(in.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// crowded is a GPU of which somebody else takes a part between two partitions of ours.
type crowded struct {
	*fakegpu.Library
	cuts int // of ours until then
}

type crowdedDevice struct {
	nvml.Device
	l *crowded
}

func (c *crowded) Device(i int) (nvml.Device, error) {
	dev, err := c.Library.Device(i)
	return &crowdedDevice{Device: dev, l: c}, err
}

func (d *crowdedDevice) CreateGPUInstance(profile int, at nvml.Placement) (nvml.GPUInstance, error) {
	if d.l.cuts--; d.l.cuts == 0 {
		in, err := d.Device.CreateGPUInstance(19, nvml.Placement{Start: 6, Size: 1})
		if err == nil {
			_, err = d.Device.CreateComputeInstance(in.ID, 0)
		}
		if err != nil {
			return in, err
		}
	}
	return d.Device.CreateGPUInstance(profile, at)
}

// TestACutBesideAnotherCutterDestroysNothingOfTheirs: nvidia-smi mig -cgi in the middle
// of a partitioning. What it made stays, and the error says that ours could not be.
func TestACutBesideAnotherCutterDestroysNothingOfTheirs(t *testing.T) {
	l := &crowded{fake(t, "gpus: [{product: A100-SXM4-40GB, mig: [7g.40gb]}]"), 2}
	d := nvml.NewDriver(l)
	uuid := d.Snapshot().GPUs[0].UUID
	err := d.PartitionMIG(uuid, []string{"3g.20gb", "3g.20gb"})
	if err == nil || !strings.Contains(err.Error(), "make a 3g.20gb") {
		t.Errorf("PartitionMIG beside another cutter: %v, want an error that names what could not be made", err)
	}
	var names []string
	for _, m := range d.Snapshot().GPUs[0].MIG {
		names = append(names, m.Profile)
	}
	if !slices.Contains(names, "1g.5gb") {
		t.Errorf("after it the GPU has %v; what the other had made is gone", names)
	}
}
