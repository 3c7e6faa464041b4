package mig_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/agent/mig"
	"berth.dev/berth/agent/nvml"
	core "berth.dev/berth/core/mig"
)

// bench is a node: GPUs that do not exist, who holds them, and what the manager
// says. A change under a holder, or to a GPU that is still offered, fails the
// test.
type bench struct {
	t       *testing.T
	lib     *fakegpu.Library
	driver  *nvml.Driver
	file    fakegpu.File
	label   chan string
	mu      sync.Mutex // of holders, drained, wait and holdersErr
	holders map[string][]string
	drained map[string]bool
	wait    string // why nothing may be touched
	states  []core.State
	events  []string
	changes int // calls that change a GPU
	refresh int

	beforeChange func(uuid, what string) error // may refuse a change
	onDrain      func(uuid string)
	stateErr     error
	holdersErr   error
	m            *mig.Manager
}

func newBench(t *testing.T, gpus string) *bench {
	t.Helper()
	f, err := fakegpu.Parse("gpus.yaml", []byte("node: n1\ngpus: "+gpus+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, file: f, lib: fakegpu.New(f, fakegpu.Options{}), label: make(chan string, 1), holders: map[string][]string{}, drained: map[string]bool{}}
	b.driver = nvml.NewDriver(b.lib)
	t.Cleanup(func() { _ = b.driver.Close(); _ = b.lib.Close() })
	return b
}

func (b *bench) Snapshot(context.Context) (nvml.Snapshot, error) { return b.driver.Snapshot(), nil }

func (b *bench) SetMIGMode(_ context.Context, uuid string, on bool) (bool, error) {
	if err := b.change(uuid, fmt.Sprintf("mode %v", on)); err != nil {
		return false, err
	}
	return b.driver.SetMIGMode(uuid, on)
}

func (b *bench) PartitionMIG(_ context.Context, uuid string, profiles []string) error {
	if err := b.change(uuid, "cut "+strings.Join(profiles, ",")); err != nil {
		return err
	}
	return b.driver.PartitionMIG(uuid, profiles)
}

func (b *bench) change(uuid, what string) error {
	b.t.Helper()
	b.changes++
	g, _, ok := b.driver.Snapshot().Find(uuid)
	if !ok {
		b.t.Errorf("%s of %s, which is not there", what, uuid)
	}
	b.mu.Lock()
	for _, by := range append([]string{uuid}, devices(g)...) {
		if len(b.holders[by]) > 0 {
			b.t.Errorf("%s of GPU %d under %v", what, g.Index, b.holders[by])
		}
	}
	if !b.drained[uuid] {
		b.t.Errorf("%s of GPU %d, which is still offered", what, g.Index)
	}
	if b.wait != "" || b.holdersErr != nil {
		b.t.Errorf("%s of GPU %d, though nothing is to be touched: %q, %v", what, g.Index, b.wait, b.holdersErr)
	}
	b.mu.Unlock()
	if b.beforeChange != nil {
		return b.beforeChange(uuid, what)
	}
	return nil
}

func devices(g nvml.GPU) []string {
	var out []string
	for _, m := range g.MIG {
		out = append(out, m.UUID)
	}
	return out
}

// run starts a manager in a bubble of synctest, and gives its end.
func (b *bench) run(o mig.Options) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	o.Driver, o.Label = b, b.label
	if o.FileChanges == nil {
		o.FileChanges = make(chan struct{}) // its own cannot be in a bubble
	}
	o.Holders = func(context.Context) (map[string][]string, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return maps.Clone(b.holders), b.holdersErr
	}
	o.Wait = func(context.Context) string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.wait
	}
	o.Drain = func(uuid string) func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.drained[uuid] = true
		if b.onDrain != nil {
			b.onDrain(uuid)
		}
		return func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.drained[uuid] = false
		}
	}
	o.Refresh = func(context.Context) error { b.refresh++; return nil }
	o.State = func(_ context.Context, s core.State) error {
		if b.stateErr == nil {
			b.states = append(b.states, s)
		}
		return b.stateErr
	}
	o.Event = func(_ bool, reason, message string) { b.events = append(b.events, reason+" "+message) }
	b.m = mig.New(o)
	done := make(chan struct{})
	go func() { defer close(done); b.m.Run(ctx) }()
	return func() {
		cancel()
		<-done
		for uuid, is := range b.drained {
			if is {
				b.t.Errorf("%s is still drained after the end", uuid)
			}
		}
	}
}

// sleep lets time pass in the bubble. Before that it pokes the manager, so that
// what the test has written is seen by whatever the manager does then.
func (b *bench) sleep(d time.Duration) {
	b.m.Freed()
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

// is checks how GPU i is partitioned: "off", or its profiles sorted.
func (b *bench) is(i int, want string) {
	b.t.Helper()
	g := b.driver.Snapshot().GPUs[i]
	got := "off"
	if g.MIGEnabled {
		var names []string
		for _, m := range g.MIG {
			names = append(names, m.Profile)
		}
		slices.Sort(names)
		got = core.Tally(names)
	}
	if got != want {
		b.t.Errorf("GPU %d is %q, want %q; states %v, events %q", i, got, want, b.states, b.events)
	}
}

func (b *bench) uuid(i int) string { return b.driver.Snapshot().GPUs[i].UUID }

func (b *bench) said(states ...core.State) {
	b.t.Helper()
	if !slices.Equal(b.states, states) {
		b.t.Errorf("states %v, want %v; events %q", b.states, states, b.events)
	}
}

func (b *bench) lastEvent(want string) {
	b.t.Helper()
	last := ""
	if len(b.events) > 0 {
		last = b.events[len(b.events)-1]
	}
	if !strings.HasPrefix(last, want) || want == "" && last != "" {
		b.t.Errorf("last event %q\nwant %q", last, want)
	}
}
