package nvml_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/agent/nvml"
)

const twoH100 = "gpus: [{product: NVIDIA H100 80GB HBM3, count: 2, mig: [3g.40gb, 1g.10gb]}]\n"

// TestWhatTheChildSaysIsWhatTheDriverSays holds the protocol to the driver that
// is behind it: nothing is lost on the way.
func TestWhatTheChildSaysIsWhatTheDriverSays(t *testing.T) {
	t.Parallel()
	text := twoH100 + "loads: [{gpu: 0, mig: 1, pid: 42, utilization: 0.5, memoryMiB: 100}]\n"
	n := start(t, text)
	f, err := fakegpu.Parse("gpus.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	here := nvml.NewDriver(fakegpu.New(f, fakegpu.Options{Node: "n1"}))
	got, err := n.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(here.Snapshot(), got); diff != "" {
		t.Errorf("Snapshot (-here +child):\n%s", diff)
	}
	samples, err := n.Samples(t.Context())
	if err != nil || len(samples) != 6 {
		t.Fatalf("Samples = %d of them, %v, want 6", len(samples), err)
	}
	at := got.GPUs[0].MIG[1]
	want := []nvml.Process{{PID: 42, MemoryBytes: 100 << 20}}
	if diff := cmp.Diff(want, samples[2].Processes); samples[2].UUID != at.UUID || diff != "" {
		t.Errorf("processes of %s, want those of %s (-want +got):\n%s", samples[2].UUID, at.UUID, diff)
	}
}

func TestACallDuringWhichTheChildDiesFailsAndTheNextWorks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, trap string
		limit      time.Duration
		want       []string
	}{
		{"a crash in the driver", "crash: [{call: nvmlDeviceGetTemperature}]", time.Minute, []string{"exit status 134", "crashes at nvmlDeviceGetTemperature"}},
		{
			// As go-nvml ends when the library that is loaded lacks a function.
			"a function that the driver lacks", "crash: [{call: nvmlDeviceGetTemperature, symbol: true}]", time.Minute,
			[]string{"exit status 127", "the driver lacks a function", "undefined symbol: nvmlDeviceGetTemperature"},
		},
		{"a call that hangs", "hang: [{call: nvmlDeviceGetTemperature}]", time.Second, []string{`no answer to "samples" within 1s`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := start(t, twoH100+test.trap, func(o *nvml.Options) { o.Timeout = test.limit })
			n.until("two GPUs", func(s nvml.Snapshot) bool { return len(s.GPUs) == 2 })
			pid := n.PID()
			_, err := n.Samples(t.Context())
			if !errors.Is(err, nvml.ErrGone) {
				t.Fatalf("Samples = %v, want ErrGone", err)
			}
			for _, w := range test.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("Samples = %q, want it to say %q", err, w)
				}
			}
			n.edit(twoH100)
			// The next child may still have read the file of before.
			n.until("samples", func(nvml.Snapshot) bool {
				_, err := n.Samples(t.Context())
				return err == nil && n.PID() != pid
			})
			if n.Restarts() == 0 {
				t.Error("Restarts = 0")
			}
			gone(t, pid)
		})
	}
}

// gone checks that a process of ours that was waited for is no more.
func gone(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}

// TestNoCallIsLost has many callers while the child dies again and again: each
// call gets its answer or an error that says why not.
func TestNoCallIsLost(t *testing.T) {
	t.Parallel()
	n := start(t, twoH100)
	s := n.until("two GPUs", func(s nvml.Snapshot) bool { return len(s.GPUs) == 2 })
	var wg sync.WaitGroup
	var mu sync.Mutex
	answers, failures := 0, 0
	for i := range 20 {
		wg.Go(func() {
			for range 20 {
				err := n.Probe(t.Context(), s.GPUs[i%2].UUID)
				mu.Lock()
				switch {
				case err == nil:
					answers++
				case errors.Is(err, nvml.ErrGone):
					failures++
				default:
					t.Errorf("Probe = %v, want nil or ErrGone", err)
				}
				mu.Unlock()
			}
		})
	}
	for range 3 {
		if pid := n.PID(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		n.until("two GPUs again", func(s nvml.Snapshot) bool { return len(s.GPUs) == 2 })
	}
	wg.Wait()
	if answers+failures != 400 {
		t.Errorf("%d answers and %d failures, want 400 together", answers, failures)
	}
}

// heard is a log that tells once when a text is in it.
type heard struct {
	text string
	once sync.Once
	said chan struct{}
}

func (h *heard) Write(b []byte) (int, error) {
	if strings.Contains(string(b), h.text) {
		h.once.Do(func() { close(h.said) })
	}
	return len(b), nil
}

func TestACallerWhoLeavesDoesNotWaitForAHungChild(t *testing.T) {
	t.Parallel()
	hangs := heard{text: "nvmlDeviceGetTemperature", said: make(chan struct{})}
	n := start(t, twoH100+"hang: [{call: nvmlDeviceGetTemperature}]", func(o *nvml.Options) {
		o.Timeout, o.Log = 10*time.Second, slog.New(slog.NewTextHandler(&hangs, nil))
	})
	n.until("two GPUs", func(s nvml.Snapshot) bool { return len(s.GPUs) == 2 })
	pid := n.PID()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go func() { <-hangs.said; leave() }()
	if _, err := n.Samples(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Samples = %v, want that the caller left", err)
	}
	// The child is killed all the same.
	n.until("another child", func(nvml.Snapshot) bool { return n.PID() != pid && n.PID() != 0 })
	gone(t, pid)
}

func TestTheChildEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, trap := range map[string]string{"idle": "", "in a call that hangs": "hang: [{call: nvmlDeviceGetTemperature}]"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, twoH100+trap)
			n.until("two GPUs", func(s nvml.Snapshot) bool { return len(s.GPUs) == 2 })
			pid := n.PID()
			var wg sync.WaitGroup
			if trap != "" {
				wg.Go(func() {
					if _, err := n.Samples(context.Background()); !errors.Is(err, nvml.ErrGone) {
						t.Errorf("Samples = %v, want ErrGone", err)
					}
				})
			}
			n.stop()
			wg.Wait()
			gone(t, pid)
			if _, err := n.Samples(context.Background()); !errors.Is(err, nvml.ErrGone) {
				t.Errorf("Samples after the end = %v, want ErrGone", err)
			}
		})
	}
}

func TestAChildThatCannotServeIsNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		role string
		want string
	}{
		{"garbage", `line "NVRM: this is not for a machine"`},
		{"other protocol", "it speaks protocol 9 and not 3"},
		{"ends at once", "exit status 7: no reason at all"},
	} {
		t.Run(test.role, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(context.Background())
			o := options(test.role, "")
			o.Backoff = time.Hour
			c := nvml.Start(ctx, o)
			_, err := c.Snapshot(t.Context())
			if !errors.Is(err, nvml.ErrGone) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Snapshot = %v, want ErrGone with %q", err, test.want)
			}
			cancel()
			c.Wait()
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := nvml.Start(ctx, nvml.Options{Command: []string{"/nonexistent/berth-nvml"}, Backoff: time.Hour})
	if _, err := c.Snapshot(t.Context()); !errors.Is(err, nvml.ErrGone) || !strings.Contains(err.Error(), "cannot start /nonexistent/berth-nvml") {
		t.Errorf("Snapshot = %v, want ErrGone and the path", err)
	}
	cancel()
	c.Wait()
}

func TestEventsComeWithTheirMIGDevice(t *testing.T) {
	t.Parallel()
	n := start(t, twoH100)
	s := n.until("two GPUs", func(s nvml.Snapshot) bool { return len(s.GPUs) == 2 })
	n.edit(twoH100 + "xid: [{gpu: 0, mig: 1, code: 94}, {gpu: 1, code: 79, after: 1ms}]\nlost: [{gpu: 1, after: 1ms}]\n")
	want := map[nvml.Event]bool{
		{UUID: s.GPUs[0].UUID, Xid: 94, GI: s.GPUs[0].MIG[1].GI, CI: 0}: true,
		{UUID: s.GPUs[1].UUID, Xid: 79, GI: -1, CI: -1}:                 true,
		{UUID: s.GPUs[1].UUID, Lost: true, GI: -1, CI: -1}:              true,
	}
	for len(want) > 0 {
		select {
		case e := <-n.Events():
			e.At = time.Time{}
			if !want[e] {
				t.Fatalf("event %+v, want one of %+v", e, want)
			}
			delete(want, e)
		case <-time.After(2 * time.Minute):
			t.Fatalf("no event of %+v", want)
		}
	}
	n.until("a lost GPU", func(s nvml.Snapshot) bool { return len(s.GPUs) == 2 && s.GPUs[1].Lost && !s.GPUs[1].Healthy })
	if err := n.Probe(t.Context(), s.GPUs[1].UUID); !errors.Is(err, nvml.GPUIsLost) {
		t.Errorf("Probe = %v, want GPUIsLost", err)
	}
	n.edit(twoH100)
	n.until("it back", func(s nvml.Snapshot) bool { return len(s.GPUs) == 2 && !s.GPUs[1].Lost && s.GPUs[1].Healthy })
	if err := n.Probe(t.Context(), s.GPUs[1].UUID); err != nil {
		t.Errorf("Probe when it is back = %v", err)
	}
}

// TestADriverUpgradeMakesANewChild: a process that has the old library must end,
// and the new one reads the new version.
func TestADriverUpgradeMakesANewChild(t *testing.T) {
	t.Parallel()
	n := start(t, twoH100)
	n.until("the old driver", func(s nvml.Snapshot) bool { return s.Driver == "570.124.06" })
	pid := n.PID()
	n.edit(twoH100 + "driver: {unloaded: true}")
	n.until("no driver", func(s nvml.Snapshot) bool { return strings.Contains(s.Failed, "not loaded") && n.PID() != pid })
	n.edit(twoH100 + `driver: {version: 590.44.01, cuda: "13.1"}`)
	s := n.until("the new driver", func(s nvml.Snapshot) bool { return s.Driver == "590.44.01" })
	if s.CUDA != "13.1" || len(s.GPUs) != 2 {
		t.Errorf("Snapshot = CUDA %s and %d GPUs, want 13.1 and 2", s.CUDA, len(s.GPUs))
	}
	gone(t, pid)
}

// TestMIGDevicesOutliveTheChild: a partition stays, as in a real GPU.
func TestMIGDevicesOutliveTheChild(t *testing.T) {
	t.Parallel()
	n := start(t, twoH100)
	s := n.until("two GPUs", func(s nvml.Snapshot) bool { return len(s.GPUs) == 2 })
	uuid := s.GPUs[0].UUID
	if err := n.PartitionMIG(t.Context(), uuid, []string{"2g.20gb", "2g.20gb"}); err != nil {
		t.Fatal(err)
	}
	pid := n.PID()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s = n.until("another child", func(nvml.Snapshot) bool { return n.PID() != pid && n.PID() != 0 })
	if len(s.GPUs[0].MIG) != 2 || s.GPUs[0].MIG[0].Profile != "2g.20gb" {
		t.Errorf("MIG devices after the restart: %+v, want two of 2g.20gb", s.GPUs[0].MIG)
	}
	if err := n.SetMemoryLimit(t.Context(), s.GPUs[0].MIG[0].UUID, "/kubepods", 1<<30); !errors.Is(err, nvml.NotSupported) {
		t.Errorf("SetMemoryLimit on a MIG device = %v, want NotSupported through the wire", err)
	}
}

// TestAGPUThatIsTakenOutIsLost: and one that is put in is watched like the rest.
func TestAGPUThatIsTakenOutIsLost(t *testing.T) {
	t.Parallel()
	const two = "gpus: [{product: Tesla T4, uuid: GPU-a}, {product: Tesla T4, uuid: GPU-b}]\n"
	n := start(t, two)
	n.until("two GPUs", func(s nvml.Snapshot) bool { return len(s.GPUs) == 2 })
	n.edit(two + "removed: [{gpu: 0}]")
	n.until("one GPU", func(s nvml.Snapshot) bool { return len(s.GPUs) == 1 && s.GPUs[0].UUID == "GPU-b" })
	next := func(want nvml.Event) {
		t.Helper()
		select {
		case e := <-n.Events():
			if e.At = (time.Time{}); e != want {
				t.Errorf("event %+v, want %+v", e, want)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("no event %+v", want)
		}
	}
	next(nvml.Event{UUID: "GPU-a", Lost: true, GI: -1, CI: -1})
	n.edit("gpus: [{product: Tesla T4, uuid: GPU-c}, {product: Tesla T4, uuid: GPU-b}]")
	n.until("another GPU", func(s nvml.Snapshot) bool { return len(s.GPUs) == 2 && s.GPUs[0].UUID == "GPU-c" })
	n.edit("gpus: [{product: Tesla T4, uuid: GPU-c}, {product: Tesla T4, uuid: GPU-b}]\nxid: [{gpu: 0, code: 48, after: 10ms}]")
	next(nvml.Event{UUID: "GPU-c", Xid: 48, GI: -1, CI: -1})
}
