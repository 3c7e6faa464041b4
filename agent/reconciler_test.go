package agent

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/agent/settings"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/health"
)

// fakeDriver has the GPUs that it is given.
type fakeDriver struct {
	mu       sync.Mutex
	snapshot nvml.Snapshot
	err      error            // what a snapshot gives instead
	bad      map[string]error // what a probe says, by UUID

	events  chan nvml.Event
	changed chan struct{}
}

func newFakeDriver(gpus ...nvml.GPU) *fakeDriver {
	return &fakeDriver{snapshot: nvml.Snapshot{Driver: "570.1", GPUs: gpus}, bad: map[string]error{}, events: make(chan nvml.Event), changed: make(chan struct{})}
}

func (d *fakeDriver) Snapshot(context.Context) (nvml.Snapshot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snapshot, d.err
}

func (d *fakeDriver) Probe(_ context.Context, uuid string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bad[uuid]
}

func (d *fakeDriver) Events() <-chan nvml.Event { return d.events }
func (d *fakeDriver) Changed() <-chan struct{}  { return d.changed }

func (d *fakeDriver) become(s nvml.Snapshot) { d.answer(s, nil) }

// answer is what the next snapshots are.
func (d *fakeDriver) answer(s nvml.Snapshot, err error) {
	d.mu.Lock()
	d.snapshot, d.err = s, err
	d.mu.Unlock()
	d.changed <- struct{}{}
}

// fakeOffers remembers what it was offered last.
type fakeOffers struct {
	mu      sync.Mutex
	healthy map[string]bool
	been    map[string]bool // UUIDs that were healthy in any offer
	sharing gpu.Sharing
	refuse  error
}

func (o *fakeOffers) SetGPUs(_ nvml.Snapshot, healthy map[string]bool, c config.Settings) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refuse != nil {
		return o.refuse
	}
	o.healthy, o.sharing = healthy, c.Sharing
	if o.been == nil {
		o.been = map[string]bool{}
	}
	for uuid, ok := range healthy {
		o.been[uuid] = o.been[uuid] || ok
	}
	return nil
}

// well lists the UUIDs that are offered as healthy, of those that were asked for.
func (o *fakeOffers) well(uuids ...string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return those(o.healthy, uuids)
}

// ever is well of all offers until now.
func (o *fakeOffers) ever(uuids ...string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return those(o.been, uuids)
}

// those are the UUIDs that are in a set.
func those(set map[string]bool, uuids []string) string {
	var out []string
	for _, u := range uuids {
		if set[u] {
			out = append(out, u)
		}
	}
	return strings.Join(out, " ")
}

func gpuNamed(index int, uuid string) nvml.GPU {
	return nvml.GPU{GPU: gpu.GPU{Index: index, UUID: uuid, Product: "NVIDIA H200", MemoryBytes: 141 << 30, Healthy: true, NUMANode: -1}}
}

// scene is a reconciler at work, in a bubble of its own time.
type scene struct {
	*reconciler
	driver  *fakeDriver
	offers  *fakeOffers
	choices chan settings.Choice
	ended   chan error
	stop    context.CancelFunc

	mu     sync.Mutex
	said   []string
	latest Status
}

func begin(t *testing.T, d *fakeDriver) *scene {
	t.Helper()
	s := newScene(d)
	s.begin(t)
	return s
}

// newScene is a reconciler that does not work yet.
func newScene(d *fakeDriver) *scene {
	s := &scene{driver: d, offers: &fakeOffers{}, choices: make(chan settings.Choice), ended: make(chan error, 1)}
	s.reconciler = newReconciler(d, s.offers, s.choices, health.Policy{})
	s.nodeEvent = func(_, reason, message string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.said = append(s.said, reason+": "+message)
	}
	s.listen = func(now Status) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.latest = now
	}
	return s
}

// published is the last Status that listen got.
func (s *scene) published() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// begin lets it work.
func (s *scene) begin(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	go func() { s.ended <- s.run(ctx) }()
}

func (s *scene) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Errorf("run ended with %v", err)
	}
}

func (s *scene) heard(reason string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, text := range s.said {
		if strings.HasPrefix(text, reason+": ") {
			n++
		}
	}
	return n
}

func chosen() settings.Choice {
	return settings.Choice{Settings: config.DefaultSettings(), InForce: true, Source: "flags and environment"}
}

func TestNothingIsOfferedBeforeTheConfigurationIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, newFakeDriver(gpuNamed(0, "GPU-a")))
		defer s.end(t)
		time.Sleep(time.Minute) // of the bubble's time: the GPU's first probe is over
		if got := s.offers.well("GPU-a"); got != "" {
			t.Errorf("offered %q without a configuration", got)
		}
		s.choices <- chosen()
		synctest.Wait()
		if got := s.offers.well("GPU-a"); got != "GPU-a" {
			t.Errorf("offered %q, want GPU-a", got)
		}
	})
}

// A GPU stayed unhealthy until the plugin was started again:
// NVIDIA/k8s-device-plugin#1014.
func TestAnXidTakesAGPUAwayUntilItIsProvenWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDriver(gpuNamed(0, "GPU-a"), gpuNamed(1, "GPU-b"))
		s := begin(t, d)
		defer s.end(t)
		s.choices <- chosen()
		synctest.Wait()
		d.events <- nvml.Event{UUID: "GPU-b", Xid: 48, GI: -1, CI: -1}
		synctest.Wait()
		if got := s.offers.well("GPU-a", "GPU-b"); got != "GPU-a" {
			t.Fatalf("after Xid 48 of GPU-b %q is offered, want GPU-a", got)
		}
		if n := s.heard("GPUXid"); n != 1 {
			t.Errorf("%d events of the Xid, want 1: %q", n, s.said)
		}
		d.events <- nvml.Event{UUID: "GPU-b", Xid: 45, GI: -1, CI: -1} // what ran there is cleaned up
		synctest.Wait()
		if got := s.published().Xid["GPU-b"]; got != 48 {
			t.Errorf("the Xid of GPU-b is %d, want the one that made it unhealthy", got)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := s.offers.well("GPU-a", "GPU-b"); got != "GPU-a GPU-b" {
			t.Errorf("ten minutes of good probes later %q is offered, want both", got)
		}
		s.Drain("GPU-b")
		synctest.Wait()
		if s := s.published(); s.Healthy["GPU-b"] || s.Xid["GPU-b"] != 0 {
			t.Errorf("a GPU that is drained after its recovery is healthy: %v, with Xid %d; want neither", s.Healthy["GPU-b"], s.Xid["GPU-b"])
		}
		if n := s.heard("GPURecovered"); n != 1 {
			t.Errorf("%d events of the recovery, want 1: %q", n, s.said)
		}
	})
}

func TestWhatAnEarlierAgentHadMarkedIsNotWellBecauseTheAgentIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, newFakeDriver(gpuNamed(0, "GPU-a"), gpuNamed(1, "GPU-b")))
		defer s.end(t)
		s.earlier <- marked(&v1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			api.AnnotationInventory: `[{"index":0,"uuid":"GPU-a","healthy":true,"xid":31},{"index":1,"uuid":"GPU-b","healthy":false,"xid":48}]`,
		}}})
		s.choices <- chosen()
		synctest.Wait()
		if got := s.offers.well("GPU-a", "GPU-b"); got != "GPU-a" {
			t.Errorf("%q is offered at once, want GPU-a", got)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := s.offers.well("GPU-a", "GPU-b"); got != "GPU-a GPU-b" {
			t.Errorf("after ten minutes of good probes %q is offered, want both", got)
		}
		if n := s.heard("GPUXid"); n != 0 {
			t.Errorf("%d events of an Xid that was told of before: %q", n, s.said)
		}
	})
}

func TestADriverThatCannotBeReadAnyMoreTakesAllGPUsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDriver(gpuNamed(0, "GPU-a"))
		s := begin(t, d)
		defer s.end(t)
		s.choices <- chosen()
		synctest.Wait()
		d.become(nvml.Snapshot{Failed: "Driver/library version mismatch"})
		synctest.Wait()
		if got := s.offers.well("GPU-a"); got != "" {
			t.Errorf("while the driver is upgraded %q is offered", got)
		}
		d.become(nvml.Snapshot{Driver: "580.1", GPUs: []nvml.GPU{gpuNamed(0, "GPU-a")}})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := s.offers.well("GPU-a"); got != "GPU-a" {
			t.Errorf("after the upgrade %q is offered, want GPU-a", got)
		}
	})
}

// What /health says follows the driver at any time, not only at the start.
func TestAStatusSaysWhetherTheDriverCanBeReadNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDriver()
		d.snapshot = nvml.Snapshot{Failed: "NVML library not found"}
		s := newScene(d)
		var last Status
		s.listen = func(now Status) { last = now }
		s.begin(t)
		defer s.end(t)
		c := chosen()
		c.FailOnInitError = false
		s.choices <- c
		well := nvml.Snapshot{GPUs: []nvml.GPU{gpuNamed(0, "GPU-a")}}
		for _, step := range []struct {
			s    nvml.Snapshot
			err  error
			want string
		}{
			{s: d.snapshot, want: "NVML library not found"},
			{s: well},
			{s: nvml.Snapshot{Failed: "Driver/library version mismatch"}, want: "Driver/library version mismatch"},
			{err: errors.New("the driver hangs"), want: "the driver hangs"},
			{s: nvml.Snapshot{Failed: "Driver/library version mismatch"}, want: "Driver/library version mismatch"},
			{s: well},
		} {
			d.answer(step.s, step.err)
			synctest.Wait()
			if last.Unread != step.want {
				t.Errorf("after %v, %v: Unread = %q, want %q", step.s, step.err, last.Unread, step.want)
			}
		}
		if len(last.Snapshot.GPUs) != 1 {
			t.Errorf("the last status has GPUs %v", last.Snapshot.GPUs)
		}
	})
}

func TestADriverThatIsNotThereAtTheStart(t *testing.T) {
	for _, fail := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			d := newFakeDriver()
			d.snapshot = nvml.Snapshot{Failed: "NVML library not found"}
			s := begin(t, d)
			c := chosen()
			c.FailOnInitError = fail
			s.choices <- c
			synctest.Wait()
			if fail {
				if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "NVML library not found") {
					t.Errorf("with failOnInitError run ended with %v, want why the driver cannot be read", err)
				}
				return
			}
			d.become(nvml.Snapshot{GPUs: []nvml.GPU{gpuNamed(0, "GPU-a")}})
			synctest.Wait()
			if got := s.offers.well("GPU-a"); got != "GPU-a" {
				t.Errorf("without failOnInitError %q is offered once the driver is there, want GPU-a", got)
			}
			s.end(t)
		})
	}
}

func TestDrainedGPUsAreOutOfTheOfferWhenDrainReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := gpuNamed(1, "GPU-b")
		cut.MIGEnabled, cut.MIG = true, []gpu.MIGDevice{{UUID: "MIG-b1"}}
		s := newScene(newFakeDriver(gpuNamed(0, "GPU-a"), cut))
		var mu sync.Mutex
		var last Status
		s.prepare = func(st Status) {
			mu.Lock()
			defer mu.Unlock()
			last = st
		}
		s.begin(t)
		defer s.end(t)
		s.choices <- chosen()
		synctest.Wait()
		release := s.Drain("GPU-b")
		if got := s.offers.well("GPU-a", "GPU-b", "MIG-b1"); got != "GPU-a" {
			t.Errorf("after Drain %q is offered, want GPU-a", got)
		}
		drained := func(want string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if got := those(last.Drained, []string{"GPU-a", "GPU-b", "MIG-b1"}); got != want {
				t.Errorf("drained and well are %q, want %q", got, want)
			}
		}
		drained("GPU-b MIG-b1")
		if err := s.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
		release()
		if got := s.offers.well("GPU-a", "GPU-b", "MIG-b1"); got != "GPU-a GPU-b MIG-b1" {
			t.Errorf("after release %q is offered, want all", got)
		}
		drained("")
		s.driver.events <- nvml.Event{UUID: "GPU-b", Xid: 79, GI: -1, CI: -1}
		synctest.Wait()
		s.Drain("GPU-b")
		drained("") // it is ill as well
	})
}

// Shares that MPS does not serve yet are never offered as healthy, not even for the
// moment between the offer and the word that they are not.
func TestWhatIsNotPreparedIsNotOfferedForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(newFakeDriver(gpuNamed(0, "GPU-a"), gpuNamed(1, "GPU-b")))
		var mu sync.Mutex
		why := map[string]string{}
		s.prepare = func(st Status) {
			mu.Lock()
			defer mu.Unlock()
			for _, g := range st.Snapshot.GPUs {
				if _, ok := why[g.UUID]; !ok && st.InForce {
					why[g.UUID] = "not ready yet"
				}
			}
		}
		s.faulty = func() map[string]string {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(why)
		}
		s.begin(t)
		defer s.end(t)
		s.choices <- chosen()
		synctest.Wait()
		if got := s.offers.ever("GPU-a", "GPU-b"); got != "" {
			t.Errorf("before it is ready %q was offered", got)
		}
		mu.Lock()
		why["GPU-b"] = ""
		mu.Unlock()
		s.Reoffer()
		if got := s.offers.well("GPU-a", "GPU-b"); got != "GPU-b" {
			t.Errorf("with GPU-b ready %q is offered", got)
		}
	})
}

func TestAConfigurationThatIsRefusedLeavesTheOneInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, newFakeDriver(gpuNamed(0, "GPU-a")))
		defer s.end(t)
		first := chosen()
		first.Strategy, first.Replicas = gpu.SharingTimeSlicing, map[string]int{gpu.ResourceGPU: 4}
		s.choices <- first
		bad := first
		bad.Err = errors.New("config.yaml:3: replicas: too few")
		s.choices <- bad
		s.choices <- bad
		synctest.Wait()
		if n := s.offers.sharing.Replicas[gpu.ResourceGPU]; n != 4 {
			t.Errorf("%d replicas are offered, want the 4 of before", n)
		}
		if n := s.heard("InvalidPluginConfig"); n != 1 {
			t.Errorf("%d events, want 1: %q", n, s.said)
		}
	})
}

func TestAReconcilerThatHasEndedHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, newFakeDriver())
		s.end(t)
		s.Drain("GPU-a")()
		s.Reoffer()
		if err := s.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
