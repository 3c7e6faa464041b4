package mig_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/agent/mig"
	core "berth.dev/berth/core/mig"
)

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

func TestManagerRefuses(t *testing.T) {
	file := "version: v1\nmig-configs:\n  mine: [{devices: all, mig-enabled: true, mig-devices: {}}]\n  other: [{devices: all, device-filter: \"0x20B710DE\", mig-enabled: true, mig-devices: {}}]\n" +
		"  wrong: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]\n"
	for _, tt := range []struct{ name, file, label, want string }{
		{"a name with a slip", file, "all-disabld", `specified MIG config all-disabld does not exist; did you mean "all-disabled"?`},
		{"a name like no other", file, "zzz", "specified MIG config zzz does not exist; there are all-1g.18gb, all-1g.18gb.me, all-1g.35gb, all-2g.35gb, all-3g.71gb, all-4g.71gb, all-7g.141gb, all-disabled, all-enabled, mine, other, wrong"},
		// NVIDIA/mig-parted#18: applied successfully, and nothing came.
		{"a configuration of other GPUs", file, "other", "MIG config other covers no GPU of this node; its entries are for other GPUs"},
		{"a profile of another product", file, "wrong", "MIG config wrong: GPU 0: profile 1g.5gb: not a profile of NVIDIA H200; the nearest is 1g.18gb"},
		{
			"a configuration with a mistake, beside others", file + "  all-1g.18gb: [{devices: all, mig-enabled: true, mig-devices: {1q.18gb: 7}}]\n", "all-1g.18gb",
			`1 invalid MIG configuration is ignored: FILE:6: mig-configs["all-1g.18gb"][0].mig-devices["1q.18gb"]: not a MIG profile: 1q.18gb`,
		},
		{"a file that is refused", "a: [{devices: all}]", "a", "FILE:1: a: unknown field"},
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
		b.lastEvent("MIGConfigFailed 1 invalid MIG configuration is ignored: " + path + ":1: mig-configs.a: must be a list ([a, b], or lines that start with -), found 7; a stays as it was read before")
		b.said(core.Pending, core.Success, core.Pending, core.Success)
		change("mig-configs: {a: 7, b: [{devices: all, mig-enabled: true, mig-devices: {1c.7g.141gb: 3, 4c.7g.141gb: 1}}]}")
		b.label <- "b" // the mistake costs a alone
		synctest.Wait()
		b.is(0, "3x 1c.7g.141gb, 1x 4c.7g.141gb")
		change("a: 7")
		b.lastEvent("MIGConfigFailed " + path + ":1: a: unknown field")
		stop()
	})
}

// A file that is not there yet is told of once, whatever the label, and used when it
// comes.
func TestAMissingFileIsToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: H200}]")
		path := filepath.Join(t.TempDir(), "config.yaml")
		changes := make(chan struct{})
		stop := b.run(mig.Options{File: path, FileChanges: changes})
		b.label <- ""
		for range 2 {
			changes <- struct{}{}
			synctest.Wait()
		}
		if len(b.events) != 1 {
			t.Errorf("events are %q, want one", b.events)
		}
		b.lastEvent("MIGConfigFailed read the MIG configurations: open " + path + ": no such file or directory; the built-in ones are available")
		b.label <- "all-3g.71gb"
		synctest.Wait()
		b.is(0, "2x 3g.71gb")
		if err := os.WriteFile(path, []byte("mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {7g.141gb: 1}}]}"), 0o600); err != nil {
			t.Fatal(err)
		}
		changes <- struct{}{}
		b.label <- "a"
		synctest.Wait()
		b.is(0, "1x 7g.141gb")
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
		Driver: b, File: path, Label: b.label, Holders: func(context.Context) (map[string][]string, error) { return nil, nil },
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

// Beside another device plugin a GPU that nobody holds may be given to a pod at any
// time: to drain it does not help.
func TestManagerTouchesNothingBesideAnotherPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: H200, count: 2, mig: [7g.141gb]}]")
		b.wait = "another device plugin serves"
		stop := b.run(mig.Options{Retry: time.Minute})
		b.label <- "all-7g.141gb" // as it is
		synctest.Wait()
		b.said(core.Success)
		b.label <- "all-1g.18gb"
		synctest.Wait()
		b.is(0, "1x 7g.141gb")
		b.said(core.Success, core.Pending)
		b.lastEvent("MIGConfigPending MIG config all-1g.18gb: another device plugin serves")
		if b.changes != 0 || b.drained[b.uuid(0)] || b.drained[b.uuid(1)] {
			t.Errorf("%d changes, drained %v", b.changes, b.drained)
		}
		b.wait = ""
		b.m.Freed() // as who hears of its end does
		synctest.Wait()
		b.is(0, "7x 1g.18gb")
		b.said(core.Success, core.Pending, core.Success)

		// It comes between two GPUs, and nobody hears of its end.
		b.beforeChange = func(string, string) error { b.wait = "another has come"; return nil }
		b.label <- "all-3g.71gb"
		synctest.Wait()
		b.is(0, "2x 3g.71gb")
		b.is(1, "7x 1g.18gb")
		if b.drained[b.uuid(0)] || b.drained[b.uuid(1)] {
			t.Errorf("drained %v", b.drained)
		}
		b.beforeChange = nil
		b.wait = ""
		b.sleep(time.Minute)
		b.is(1, "2x 3g.71gb")
		stop()
	})
}

func TestManagerTouchesNothingWhileItIsNotKnownWhoHoldsTheGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "[{product: H200, count: 2, mig: [7g.141gb]}]")
		b.holders[b.uuid(1)] = []string{"pod a/b"}
		stop := b.run(mig.Options{Retry: time.Minute})
		b.label <- "all-1g.18gb"
		synctest.Wait()
		b.is(0, "7x 1g.18gb")
		b.mu.Lock()
		b.holdersErr = errors.New("the API server is away")
		delete(b.holders, b.uuid(1)) // which nobody can tell
		b.mu.Unlock()
		b.m.Freed()
		synctest.Wait()
		b.is(1, "1x 7g.141gb")
		b.lastEvent("MIGConfigPending MIG config all-1g.18gb: cannot tell which pods use the GPUs: the API server is away")
		if !b.drained[b.uuid(1)] {
			t.Error("the GPU that was waited for is offered again")
		}
		b.mu.Lock()
		b.holdersErr = nil
		b.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		b.is(1, "7x 1g.18gb")
		b.said(core.Pending, core.Success)
		stop()
	})
}
