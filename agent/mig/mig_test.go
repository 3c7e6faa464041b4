package mig_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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
	mu      sync.Mutex // of holders and drained
	holders map[string][]string
	drained map[string]bool
	states  []core.State
	events  []string
	changes int // calls that change a GPU
	refresh int

	beforeChange func(uuid, what string) error // may refuse a change
	onDrain      func(uuid string)
	stateErr     error
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

func (b *bench) CutMIG(_ context.Context, uuid string, profiles []string) error {
	if err := b.change(uuid, "cut "+strings.Join(profiles, ",")); err != nil {
		return err
	}
	return b.driver.CutMIG(uuid, profiles)
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
	o.Holders = func() map[string][]string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return maps.Clone(b.holders)
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

// is checks how GPU i is cut: "off", or its profiles sorted.
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

func TestManagerAppliesALabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: H200, count: 2}]")
		stop := b.run(mig.Options{})
		b.label <- "all-3g.71gb"
		synctest.Wait()
		b.is(0, "2x 3g.71gb")
		b.is(1, "2x 3g.71gb")
		b.said(core.Pending, core.Success)
		b.lastEvent("MIGConfigApplied MIG config all-3g.71gb is applied")
		if len(b.events) != 2 || b.refresh != 1 || b.drained[b.uuid(0)] {
			t.Errorf("%d events, %d refreshes, drained %v", len(b.events), b.refresh, b.drained)
		}

		// The same again, or news of what it did itself, changes nothing.
		before := b.changes
		b.label <- "all-3g.71gb"
		b.m.Changed()
		b.m.Freed()
		synctest.Wait()
		if b.changes != before || len(b.events) != 2 {
			t.Errorf("%d changes more, events %q", b.changes-before, b.events)
		}

		b.label <- "all-disabled"
		synctest.Wait()
		b.is(0, "off")
		b.said(core.Pending, core.Success, core.Pending, core.Success)
		b.label <- "" // no label: nothing is asked
		synctest.Wait()
		b.is(0, "off")
		stop()
	})
}

// A restart of the agent finds all as asked, and says so without noise.
func TestManagerAtAStartWithNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: H200, mig: [3g.71gb, 1g.18gb+me]}]")
		stop := b.run(mig.Options{File: writeFile(t, "mig-configs: {mine: [{devices: all, mig-enabled: true, mig-devices: {1g.18gb+me: 1, 3g.71gb: 1}}]}")})
		b.label <- "mine"
		synctest.Wait()
		b.said(core.Success)
		if b.changes != 0 || len(b.events) != 0 {
			t.Errorf("%d changes, events %q", b.changes, b.events)
		}
		stop()
	})
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// NVIDIA/gpu-operator#2833: a GPU that could not be freed left the node without
// GPUs, pending for ever, since only a change of the label was waited for.
// NVIDIA/mig-parted#357: a change of one GPU touched the others, and what ran
// there.
func TestManagerWaitsForHoldersAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: H200, count: 3, mig: [7g.141gb]}]")
		held := b.driver.Snapshot().GPUs[1].MIG[0].UUID
		b.holders[held] = []string{"pod team-a/train-0"}
		b.holders[b.uuid(2)] = []string{"pod team-b/serve-0"}
		stop := b.run(mig.Options{File: writeFile(t, "mig-configs: {c: [{devices: [0, 1], mig-enabled: true, mig-devices: {1g.18gb: 7}}]}")})
		b.label <- "c"
		synctest.Wait()
		b.is(0, "7x 1g.18gb") // free: done at once
		b.is(1, "1x 7g.141gb")
		b.said(core.Pending)
		b.lastEvent("MIGConfigPending MIG config c: GPU 1: held by pod team-a/train-0")
		if b.drained[b.uuid(0)] || !b.drained[b.uuid(1)] || b.drained[b.uuid(2)] {
			t.Errorf("drained: %v; only GPU 1 is waited for", b.drained)
		}
		b.m.Freed() // somebody else's pod ended
		synctest.Wait()
		b.is(1, "1x 7g.141gb")

		delete(b.holders, held)
		b.m.Freed()
		synctest.Wait()
		b.is(1, "7x 1g.18gb")
		b.is(2, "1x 7g.141gb")
		b.said(core.Pending, core.Success)
		if b.drained[b.uuid(1)] {
			t.Error("GPU 1 is still drained")
		}
		stop()
	})
}

// A pod got its device between the plan and the drain.
func TestManagerLooksAgainAfterTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: H200}]")
		b.onDrain = func(uuid string) { b.holders[uuid] = []string{"pod a/b"} }
		stop := b.run(mig.Options{})
		b.label <- "all-enabled"
		synctest.Wait()
		b.is(0, "off")
		b.lastEvent("MIGConfigPending MIG config all-enabled: GPU 0: held by pod a/b")
		b.label <- "" // never mind: the GPU is offered again
		synctest.Wait()
		if b.drained[b.uuid(0)] || b.changes != 0 {
			t.Errorf("drained %v, %d changes", b.drained, b.changes)
		}
		b.said(core.Pending, "")
		stop()
	})
}

// NVIDIA/mig-parted#9: on A100 the mode holds only after a reset, and the tool
// said that all was done.
func TestManagerSaysThatAResetIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: A100-SXM4-40GB}]")
		stop := b.run(mig.Options{Retry: time.Minute})
		b.label <- "all-1g.5gb"
		synctest.Wait()
		b.is(0, "off")
		b.said(core.Pending, core.Rebooting)
		b.lastEvent("MIGConfigNeedsReset MIG config all-1g.5gb: GPU 0: the new MIG mode holds after a reset; restart the node")
		b.m.Changed() // of its own making: no busy loop
		synctest.Wait()
		if b.changes != 1 {
			t.Errorf("%d changes", b.changes)
		}
		// The node is restarted, or somebody resets the GPU.
		b.file.Reset = []fakegpu.Change{{GPU: 0}}
		b.lib.Apply(b.file)
		b.m.Changed()
		synctest.Wait()
		b.is(0, "7x 1g.5gb")
		b.said(core.Pending, core.Rebooting, core.Pending, core.Success)
		stop()
	})
}

// NVIDIA/mig-parted#181, NVIDIA/gpu-operator#603: "in use by another client".
// No pod holds the GPU, and still it cannot be changed: it is named and tried
// again, without anybody touching the label.
func TestManagerTriesAgainWhileAnotherClientUsesTheGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: H200, mig: [7g.141gb]}]")
		busy := true
		b.beforeChange = func(string, string) error {
			if busy {
				return fmt.Errorf("nvml cut: %w", nvml.InUse)
			}
			return nil
		}
		stop := b.run(mig.Options{Retry: time.Minute})
		b.label <- "all-1g.18gb"
		synctest.Wait()
		b.is(0, "1x 7g.141gb")
		b.said(core.Pending)
		b.lastEvent("MIGConfigPending MIG config all-1g.18gb: GPU 0: in use by a process that is no pod")
		b.sleep(time.Minute)
		if b.changes != 2 {
			t.Errorf("%d tries after a minute, want 2", b.changes)
		}
		busy = false // rmmod nvidia_drm
		b.sleep(time.Minute)
		b.is(0, "7x 1g.18gb")
		b.said(core.Pending, core.Success)
		stop()
	})
}

func TestManagerPutsBackWhatItCouldNotFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: H200}, {product: H200, mig: [3g.71gb]}]")
		b.beforeChange = func(_, what string) error {
			if strings.Contains(what, "1g.18gb") {
				return fmt.Errorf("nvml cut: %w", nvml.InsufficientResources)
			}
			return nil
		}
		stop := b.run(mig.Options{})
		b.label <- "all-1g.18gb"
		synctest.Wait()
		b.is(0, "off") // its mode was turned on, and off again
		b.is(1, "1x 3g.71gb")
		b.said(core.Pending, core.Failed)
		if last := b.events[len(b.events)-1]; strings.Count(last, "it is as it was before") != 2 {
			t.Errorf("last event %q", last)
		}
		if b.drained[b.uuid(0)] || b.drained[b.uuid(1)] {
			t.Errorf("drained: %v", b.drained)
		}
		changes := b.changes
		b.m.Changed()
		b.m.Freed()
		synctest.Wait()
		if b.changes != changes {
			t.Error("tried again without a new reason")
		}
		b.beforeChange = nil
		b.label <- "all-1g.18gb" // asked again
		synctest.Wait()
		b.is(0, "7x 1g.18gb")
		stop()
	})
}

// The child that owns NVML ends in the middle: its next one goes on.
func TestManagerGoesOnWhenTheDriverAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: H200}]")
		gone := 1
		b.beforeChange = func(_, what string) error {
			if strings.HasPrefix(what, "cut") && gone > 0 {
				gone--
				return fmt.Errorf("nvml cut: %w: exit status 127", nvml.ErrGone)
			}
			return nil
		}
		stop := b.run(mig.Options{Retry: time.Hour})
		b.label <- "all-3g.71gb"
		synctest.Wait()
		b.said(core.Pending)
		if !b.drained[b.uuid(0)] {
			t.Error("the GPU is offered half done")
		}
		b.m.Changed() // the child came
		synctest.Wait()
		b.is(0, "2x 3g.71gb")
		b.said(core.Pending, core.Success)
		stop()
	})
}

func TestManagerRefuses(t *testing.T) {
	file := "mig-configs:\n  mine: [{devices: all, mig-enabled: true}]\n  other: [{devices: all, device-filter: \"0x20B710DE\", mig-enabled: true}]\n" +
		"  wrong: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]\n"
	for _, tt := range []struct{ name, file, label, want string }{
		{"a name with a slip", file, "all-disabld", `specified MIG config all-disabld does not exist; did you mean "all-disabled"?`},
		{"a name like no other", file, "zzz", "specified MIG config zzz does not exist; there are all-1g.18gb, all-1g.18gb.me, all-1g.35gb, all-2g.35gb, all-3g.71gb, all-4g.71gb, all-7g.141gb, all-disabled, all-enabled, mine, other, wrong"},
		// NVIDIA/mig-parted#18: applied successfully, and nothing came.
		{"a configuration of other GPUs", file, "other", "MIG config other covers no GPU of this node; its entries are for other GPUs"},
		{"a profile of another product", file, "wrong", "MIG config wrong: GPU 0: profile 1g.5gb: not a profile of NVIDIA H200; the nearest is 1g.18gb"},
		{"a file that is refused", "mig-configs: {a: [{devices: all}]}", "a", "FILE:1: mig-configs.a[0]: required field missing: mig-enabled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "[{product: H200}]")
				path := writeFile(t, tt.file)
				stop := b.run(mig.Options{File: path})
				b.label <- tt.label
				synctest.Wait()
				b.is(0, "off")
				b.said(core.Failed)
				if got := strings.ReplaceAll(b.events[0], path, "FILE"); !strings.Contains(got, tt.want) {
					t.Errorf("event %q\nwant  %q", got, tt.want)
				}
				stop()
			})
		})
	}
}

// A label that cannot be written is written later.
func TestManagerWritesTheStateLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: H200}]")
		b.stateErr = errors.New("connection refused")
		stop := b.run(mig.Options{Retry: time.Minute})
		b.label <- "all-enabled"
		synctest.Wait()
		b.said()
		b.stateErr = nil
		b.sleep(time.Minute)
		b.said(core.Success)
		stop()
	})
}

// The file is followed: what the label names may come later, and change.
// NVIDIA/gpu-operator#1144 is the same of the device plugin's file.
func TestManagerFollowsItsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: H200}]")
		path := writeFile(t, "mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {7g.141gb: 1}}]}")
		changes := make(chan struct{})
		stop := b.run(mig.Options{File: path, FileChanges: changes})
		change := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			changes <- struct{}{}
			synctest.Wait()
		}
		b.label <- "a"
		synctest.Wait()
		b.is(0, "1x 7g.141gb")
		change("mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {3g.71gb: 2}}]}")
		b.is(0, "2x 3g.71gb")
		change("mig-configs: {a: 7}") // refused: what was read before stays
		b.is(0, "2x 3g.71gb")
		b.lastEvent("MIGConfigFailed " + path + ":1: mig-configs.a: must be a list ([a, b], or lines that start with -), found 7; the configurations read before stay in force")
		stop()
	})
}

// A real file, as the agent runs it.
func TestManagerWatchesItsFile(t *testing.T) {
	b := newBench(t, "[{product: H200}]")
	path := filepath.Join(t.TempDir(), "config.yaml")
	done := make(chan core.State, 10)
	ctx, cancel := context.WithCancel(context.Background())
	m := mig.New(mig.Options{
		Driver: b, File: path, Label: b.label, Holders: func() map[string][]string { return nil },
		Drain: func(uuid string) func() { b.drained[uuid] = true; return func() {} },
		State: func(_ context.Context, s core.State) error { done <- s; return nil },
	})
	ended := make(chan struct{})
	go func() { defer close(ended); m.Run(ctx) }()
	b.label <- "mine"
	if s := <-done; s != core.Failed { // there is no such file yet
		t.Errorf("state %s", s)
	}
	if err := os.WriteFile(path, []byte("mig-configs: {mine: [{devices: all, mig-enabled: true, mig-devices: {3g.71gb: 2}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for s := range done {
		if s == core.Success {
			break
		}
	}
	b.is(0, "2x 3g.71gb")
	cancel()
	<-ended
}
