package mig_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/agent/mig"
	"berth.dev/berth/agent/nvml"
	core "berth.dev/berth/core/mig"
)

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
		if last := b.events[len(b.events)-1]; strings.Count(last, "it is unchanged") != 2 {
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
