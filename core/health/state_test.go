package health_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/health"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// node is three GPUs; GPU-2 is cut into three MIG devices, two of GPU instance 1.
func node() []gpu.GPU {
	return []gpu.GPU{
		{Index: 0, UUID: "GPU-0", Healthy: true},
		{Index: 1, UUID: "GPU-1", Healthy: true},
		{Index: 2, UUID: "GPU-2", Healthy: true, MIGEnabled: true, MIG: []gpu.MIGDevice{
			{UUID: "MIG-a", GI: 1, CI: 0}, {UUID: "MIG-b", GI: 1, CI: 1}, {UUID: "MIG-c", GI: 5},
		}},
	}
}

var errSick = errors.New("a row could not be remapped")

// begin makes a State whose GPUs have passed their first probe.
func begin(t *testing.T, p health.Policy) *health.State {
	t.Helper()
	s := health.New(p)
	s.Inventory(node(), start)
	probe(s, start, nil)
	if got := unhealthy(s); len(got) > 0 {
		t.Fatalf("unhealthy at the start: %v", got)
	}
	return s
}

// probe answers all that is due with err.
func probe(s *health.State, now time.Time, err error) []string {
	due := s.Due(now)
	for _, uuid := range due {
		s.Probed(uuid, err, now)
	}
	return due
}

func unhealthy(s *health.State) []string {
	out := []string{}
	for uuid, ok := range s.Healthy() {
		if !ok {
			out = append(out, uuid)
		}
	}
	slices.Sort(out)
	return out
}

func TestEventsMarkWhatTheyHit(t *testing.T) {
	mig := []string{"GPU-2", "MIG-a", "MIG-b", "MIG-c"}
	all := append([]string{"GPU-0", "GPU-1"}, mig...)
	for _, c := range []struct {
		name  string
		event health.Event
		want  []string
	}{
		{"an Xid of a whole GPU is of that GPU alone", health.Event{UUID: "GPU-1", Xid: 48, GI: -1}, []string{"GPU-1"}},
		// NVIDIA/k8s-device-plugin#1929: only one of them turned unhealthy.
		{"an Xid of a GPU that is cut is of every MIG device of it", health.Event{UUID: "GPU-2", Xid: 48, GI: -1}, mig},
		// NVIDIA/k8s-device-plugin#1930, #519
		{"an Xid of a GPU instance is of its MIG devices alone", health.Event{UUID: "GPU-2", Xid: 48, GI: 1}, []string{"MIG-a", "MIG-b"}},
		{"an Xid that names the MIG device is of its GPU instance", health.Event{UUID: "MIG-c", Xid: 48, GI: -1}, []string{"MIG-c"}},
		{"an Xid of a GPU instance that nobody knows is of the whole GPU", health.Event{UUID: "GPU-2", Xid: 48, GI: 9}, mig},
		{"an Xid without a GPU is of every GPU", health.Event{Xid: 62, GI: -1}, all},
		{"the loss of a GPU is of it and its MIG devices", health.Event{UUID: "GPU-2", GI: -1, Lost: true}, mig},
		// NVIDIA/k8s-device-plugin#1974, NVIDIA/gpu-operator#1065
		{"a contained memory error is its application's", health.Event{UUID: "GPU-0", Xid: 94, GI: -1}, nil},
		{"a context switch timeout is the GPU's", health.Event{UUID: "GPU-0", Xid: 109, GI: -1}, []string{"GPU-0"}},
		{"an application's error without a GPU is nobody's", health.Event{Xid: 31, GI: -1}, nil},
		{"a code that nobody knows is the GPU's", health.Event{UUID: "GPU-0", Xid: 999, GI: -1}, []string{"GPU-0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begin(t, health.Policy{})
			got := s.Event(c.event, start.Add(time.Second))
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("Event(%+v) changed (-want +got):\n%s", c.event, d)
			}
			if d := cmp.Diff(append([]string{}, c.want...), unhealthy(s)); d != "" {
				t.Errorf("unhealthy after %+v (-want +got):\n%s", c.event, d)
			}
			if again := s.Event(c.event, start.Add(2*time.Second)); again != nil {
				t.Errorf("the same event again changed %v", again)
			}
		})
	}
}

func TestAVerdictNamesTheXidAndWhatItMeans(t *testing.T) {
	s := begin(t, health.Policy{})
	s.Event(health.Event{UUID: "GPU-2", Xid: 48, GI: 1}, start)
	s.Event(health.Event{UUID: "GPU-2", Xid: 45, GI: 1}, start.Add(time.Second)) // follows the first
	healthy, xid, why := s.Verdict("MIG-a")
	want := "Xid 48, double bit ECC error: Memory was corrupted in a way that cannot be corrected. Drain the GPU and reset it, or restart the node."
	if healthy || xid != 48 || why != want {
		t.Errorf("Verdict(MIG-a) = %v, %d, %q", healthy, xid, why)
	}
	if healthy, _, _ := s.Verdict("GPU-2"); !healthy {
		t.Error("the GPU of a sick MIG device is unhealthy itself")
	}
	if got := s.LastXid("GPU-2"); got != 45 {
		t.Errorf("LastXid = %d, want the last of any class", got)
	}
	if got := s.Since("MIG-a"); !got.Equal(start) {
		t.Errorf("Since = %v, want when the event that marked it came", got)
	}
	s.Event(health.Event{UUID: "GPU-2", Xid: 79, GI: -1}, start.Add(2*time.Second))
	if _, xid, why := s.Verdict("MIG-a"); xid != 79 || !strings.Contains(why, "fallen off the bus") {
		t.Errorf("Verdict after a graver event = %d, %q", xid, why)
	}
	s.Event(health.Event{UUID: "GPU-1", Lost: true, GI: -1}, start)
	s.Event(health.Event{UUID: "GPU-1", Xid: 48, GI: -1}, start)
	if _, xid, _ := s.Verdict("GPU-1"); xid != 0 {
		t.Errorf("Verdict of a GPU that is lost, after an Xid that is less grave = %d", xid)
	}
	s.Event(health.Event{UUID: "GPU-1", Xid: 79, GI: -1}, start)
	if _, xid, why := s.Verdict("GPU-1"); xid != 79 || !strings.HasPrefix(why, "Xid 79") {
		t.Errorf("Verdict of a GPU that is lost, after its Xid = %d, %q", xid, why)
	}
	if healthy, _, why := s.Verdict("GPU-9"); healthy || why != "the driver has no device GPU-9" {
		t.Errorf("Verdict of an unknown device = %v, %q", healthy, why)
	}
}

func TestInventory(t *testing.T) {
	t.Run("a GPU that is gone is lost, one that is there again must prove itself", func(t *testing.T) {
		s := begin(t, health.Policy{})
		now := start.Add(time.Second)
		if got := s.Inventory(node()[1:], now); !slices.Equal(got, []string{"GPU-0"}) {
			t.Errorf("Inventory without GPU-0 changed %v", got)
		}
		if got := s.Due(now.Add(time.Hour)); got != nil {
			t.Errorf("Due while it is gone = %v, want none", got)
		}
		if !s.Stale(now.Add(time.Hour)) {
			t.Error("no fresh inventory is asked for while it is gone")
		}
		back := now.Add(2 * time.Hour)
		if got := s.Inventory(node(), back); got != nil {
			t.Errorf("it came back at once: %v", got)
		}
		for i := 0; i < 100 && len(unhealthy(s)) > 0; i++ {
			back = s.Next()
			probe(s, back, nil)
		}
		if len(unhealthy(s)) > 0 {
			t.Errorf("it did not come back: %v", unhealthy(s))
		}
	})
	t.Run("an inventory from before the loss proves nothing", func(t *testing.T) {
		s := begin(t, health.Policy{})
		s.Event(health.Event{UUID: "GPU-0", Xid: 79, GI: -1}, start.Add(time.Minute))
		s.Inventory(node(), start.Add(time.Second))
		if got := s.Due(start.Add(time.Hour)); got != nil {
			t.Errorf("Due = %v, want none before a fresh inventory", got)
		}
		s.Inventory(node(), start.Add(2*time.Minute))
		if got := s.Due(start.Add(time.Hour)); !slices.Equal(got, []string{"GPU-0"}) {
			t.Errorf("Due = %v, want GPU-0 after a fresh inventory", got)
		}
	})
	t.Run("a MIG device that is cut anew leaves its mark behind", func(t *testing.T) {
		s := begin(t, health.Policy{})
		s.Event(health.Event{UUID: "GPU-2", Xid: 48, GI: 5}, start)
		gpus := node()
		gpus[2].MIG[2].UUID = "MIG-d"
		if got := s.Inventory(gpus, start.Add(time.Minute)); !slices.Equal(got, []string{"MIG-d"}) {
			t.Errorf("Inventory changed %v, want the new device", got)
		}
		if got := unhealthy(s); len(got) > 0 {
			t.Errorf("unhealthy: %v", got)
		}
	})
	t.Run("an event may come before its GPU", func(t *testing.T) {
		s := health.New(health.Policy{})
		s.Event(health.Event{UUID: "GPU-1", Xid: 48, GI: -1}, start)
		s.Inventory(node(), start.Add(time.Second))
		if got := unhealthy(s); !slices.Equal(got, []string{"GPU-1"}) {
			t.Errorf("unhealthy: %v", got)
		}
	})
	t.Run("a GPU that does not pass its first probe is unhealthy", func(t *testing.T) {
		s := health.New(health.Policy{})
		s.Inventory(node(), start)
		for _, uuid := range s.Due(start) {
			var err error
			if uuid == "GPU-1" {
				err = errSick
			}
			s.Probed(uuid, err, start)
		}
		_, xid, why := s.Verdict("GPU-1")
		if got := unhealthy(s); !slices.Equal(got, []string{"GPU-1"}) || xid != 0 || why != "the driver does not find the GPU well: a row could not be remapped" {
			t.Errorf("unhealthy: %v, %d, %q", got, xid, why)
		}
	})
}

func ExampleState() {
	s := health.New(health.Policy{})
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s.Inventory([]gpu.GPU{{UUID: "GPU-0", Healthy: true}}, now)
	fmt.Println("changed:", s.Event(health.Event{UUID: "GPU-0", Xid: 48, GI: -1}, now))
	for probes := 1; ; probes++ {
		now = s.Next()
		for _, uuid := range s.Due(now) {
			if back := s.Probed(uuid, nil, now); back != nil {
				fmt.Println("back:", back, "after", probes, "good probes, at", now.Format(time.TimeOnly))
				return
			}
		}
	}
	// Output:
	// changed: [GPU-0]
	// back: [GPU-0] after 3 good probes, at 12:00:45
}
