package meter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/exporter"
)

// doing is what an exporter says that a pod does on one GPU.
func doing(pod string, ratio float64) exporter.Reading {
	return exporter.Reading{UUID: "GPU-" + pod, Namespace: "vision", Pod: pod, Utilization: ratio, UtilizationKnown: true, MemoryBytes: 1 << 30}
}

// watch has the node of a rig read every 15 seconds for so many minutes.
func (r *rig) watch(node string, minutes int, readings ...exporter.Reading) {
	for range minutes * 4 {
		r.clock = r.clock.Add(15 * time.Second)
		r.read(node, r.clock, readings)
		r.use.settle(r.clock, &r.batch)
	}
}

// idlers is what `berth idle` shows.
func (r *rig) idlers() string {
	list, err := idlers(r.Context(), r.book, 0, r.clock)
	if err != nil {
		r.Fatal(err)
	}
	var out []string
	for _, one := range list {
		out = append(out, fmt.Sprintf("%s since %v $%.2f", one.Pod.Name, one.Since.Sub(epoch).Minutes(), float64(one.Micros)/1e6))
	}
	return strings.Join(out, "; ")
}

func TestIdleHolders(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(r *rig)
		want string
	}{
		{"a pod that does nothing is idle since its first reading", func(r *rig) { r.watch("n", 60, doing("a", 0.02)) }, "a since 0.25 $1.00"},
		{"one that works is not", func(r *rig) { r.watch("n", 60, doing("a", 0.8)) }, ""},
		{"since it last worked", func(r *rig) { r.watch("n", 30, doing("a", 0.8)); r.watch("n", 30, doing("a", 0)) }, "a since 30 $0.50"},
		{"a meter that is started again goes on", func(r *rig) {
			r.watch("n", 10, doing("a", 0))
			r.flush()
			r.start()
			r.node(aNode("n", 1, 0))
			r.pod(aPod("a", "n", 1, 0))
			r.missed()
			r.watch("n", 10, doing("a", 0))
		}, "a since 0.25 $0.33"},
		{"but not over a long time in which nothing was read", func(r *rig) {
			r.watch("n", 10, doing("a", 0))
			r.flush()
			r.clock = at(60)
			r.watch("n", 10, doing("a", 0))
		}, "a since 60.25 $0.16"},
		{"a pod that has ended holds nothing", func(r *rig) {
			r.watch("n", 10, doing("a", 0))
			r.pod(finished(aPod("a", "n", 1, 0), 10))
		}, ""},
		{"a pod of which nothing is read is not said to be idle", func(r *rig) { r.watch("n", 60, doing("other", 0)) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.node(aNode("n", 1, 0))
			r.pod(aPod("a", "n", 1, 0))
			c.play(r)
			r.flush()
			if got := r.idlers(); got != c.want {
				t.Errorf("idle is %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatIsUsedIsInTheBook(t *testing.T) {
	r := newRig(t)
	r.node(aNode("n", 1, 0))
	r.pod(aPod("a", "n", 1, 0))
	r.watch("n", 30, doing("a", 0.5))
	r.watch("n", 90, doing("a", 0))
	rows := len(r.batch.Uses) + len(r.batch.Lows)
	r.flush()
	if rows > 2*60/5+5 {
		t.Errorf("%d rows are written for two hours", rows)
	}
	list, err := useOf(r.Context(), r.book, &cost.UseQuestion{From: at(0), To: r.clock, By: cost.User, Grace: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Name != "ann" || list[0].IdleMicros != 1_333_333 || list[0].MemoryBytes != 1<<30 || list[0].Devices != 1 {
		t.Fatalf("the use is %+v, want one row of ann, idle for 80 of 120 minutes", list)
	}
	if ratio := float64(list[0].UsedMillis) / float64(list[0].KnownMillis); ratio < 0.12 || ratio > 0.13 {
		t.Errorf("used is %v of what is known, want an eighth", ratio)
	}
}

func TestActivity(t *testing.T) {
	of := func(pod string, ratio float64) exporter.Reading {
		return exporter.Reading{UUID: "GPU-1", Namespace: "vision", Pod: pod, Utilization: ratio, UtilizationKnown: pod != "", MemoryBytes: 1 << 30}
	}
	for _, c := range []struct {
		name     string
		readings []exporter.Reading
		parts    int64
		ratio    float64
		shared   bool
	}{
		{"a whole GPU", []exporter.Reading{of("a", 0.4)}, quota.Whole, 0.4, false},
		{"a share whose part is known counts by its size", []exporter.Reading{of("", 0), of("a", 0.1), of("b", 0.5)}, quota.Whole / 4, 0.4, false},
		{"a share whose part is not known counts as its GPU", []exporter.Reading{of("a", 0.4), of("b", 0.4)}, quota.Whole / 4, 0.4, true},
	} {
		p := aPod("a", "n", 1, 0)
		a, ok := activity(p, c.parts, at(0), c.readings)
		if !ok || a.Ratio < c.ratio-1e-9 || a.Ratio > c.ratio+1e-9 || a.Shared != c.shared {
			t.Errorf("%s: %+v, %v, want a ratio of %v, shared %v", c.name, a, ok, c.ratio, c.shared)
		}
	}
}
