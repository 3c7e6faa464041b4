//go:build hardware && cgo && linux

package hardware_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth.dev/berth/agent/nvml"
)

// restoreWithin is how long it is tried to put a GPU back.
const restoreWithin = time.Minute

// putBack promises to make the MIG mode and devices of g what they are now: at the end of
// the test, and where the process is told to end before, such as by the time limit of
// run.sh or by Ctrl-C. Call it before the first change, and defer what it returns.
func putBack(t *testing.T, c *nvml.Client, g nvml.GPU) (restore func()) {
	t.Helper()
	var once sync.Once
	var err error
	do := func() error {
		once.Do(func() { err = restoreMIG(c, g) })
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case s := <-told:
			if err := do(); err != nil {
				fmt.Fprintf(os.Stderr, "hardware: MIG of %s is not as it was: %v\n", g.UUID, err)
			} else {
				fmt.Fprintf(os.Stderr, "hardware: %v: MIG of %s is as it was before\n", s, g.UUID)
			}
			os.Exit(1)
		case <-done:
		}
	}()
	return func() {
		if err := do(); err != nil {
			t.Errorf("MIG of %s is not as it was: %v; nvidia-smi -i %s -mig %d", g.UUID, err, g.UUID, map[bool]int{true: 1}[g.MIGEnabled])
		}
		signal.Stop(told)
		close(done)
		<-ended
	}
}

// restoreMIG makes a GPU as was. The child may have been told to end with us: it is
// started again, and asked again.
func restoreMIG(c *nvml.Client, was nvml.GPU) error {
	ctx, cancel := context.WithTimeout(context.Background(), restoreWithin)
	defer cancel()
	for {
		err := restoreOnce(ctx, c, was)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond) // until the child is there again
	}
}

func restoreOnce(ctx context.Context, c *nvml.Client, was nvml.GPU) error {
	s, err := c.Snapshot(ctx)
	if err != nil {
		return err
	}
	now, _, ok := s.Find(was.UUID)
	if !ok {
		return errors.New("the driver does not show it")
	}
	profiles := []string{}
	for _, m := range was.MIG {
		profiles = append(profiles, m.Profile)
	}
	if now.MIGEnabled != was.MIGEnabled {
		if now.MIGEnabled { // off: without devices, as nvidia-smi wants it
			if err := c.PartitionMIG(ctx, was.UUID, nil); err != nil {
				return err
			}
		}
		if reset, err := c.SetMIGMode(ctx, was.UUID, was.MIGEnabled); err != nil || reset {
			return errors.Join(err, map[bool]error{true: errors.New("its former mode needs a reset of the GPU")}[reset])
		}
	}
	if !was.MIGEnabled {
		return nil
	}
	return c.PartitionMIG(ctx, was.UUID, profiles)
}

// TestMIGCut cuts the first GPU and puts it back. It changes the GPU, so it has
// to be asked for.
func TestMIGCut(t *testing.T) {
	if os.Getenv("BERTH_MIG") != "1" {
		t.Skip("skipped: BERTH_MIG=1 lets it cut the first GPU, which has to be idle")
	}
	c := start(t)
	g := snapshot(t, c).GPUs[0]
	if !g.MIGCapable {
		t.Skip("skipped: this GPU has no MIG")
	}
	defer putBack(t, c, g)()
	if !g.MIGEnabled {
		if reset, err := c.SetMIGMode(t.Context(), g.UUID, true); err != nil || reset {
			t.Fatalf("SetMIGMode(on) = %v, %v", reset, err)
		}
	}
	if os.Getenv("BERTH_MIG_HOLD") != "" { // for the test of this test
		fmt.Println("hardware: MIG is on")
		select {}
	}
	var one, three string
	for _, p := range snapshot(t, c).GPUs[0].Profiles {
		switch {
		case p.Slices == 1 && p.Size == 1 && !p.Media():
			one = p.Name
		case p.Slices == 3:
			three = p.Name
		}
	}
	for _, profiles := range [][]string{{three, three}, {one, one, three}, {one, one, one, one, one, one, one}} {
		cutInto(t, c, g.UUID, profiles)
	}
	if data, err := c.CDI(t.Context()); err != nil {
		t.Errorf("CDI of MIG devices: %v", err)
	} else {
		t.Logf("CDI with MIG: %d bytes", len(data))
	}
}

// cutInto cuts a GPU, and wants to see it.
func cutInto(t *testing.T, c *nvml.Client, uuid string, profiles []string) {
	t.Helper()
	began := time.Now()
	if err := c.PartitionMIG(t.Context(), uuid, profiles); err != nil {
		t.Errorf("PartitionMIG(%v): %v", profiles, err)
		return
	}
	s := snapshot(t, c)
	cut := s.GPUs[slices.IndexFunc(s.GPUs, func(g nvml.GPU) bool { return g.UUID == uuid })]
	t.Logf("PartitionMIG(%v) in %s: %+v, nodes %v", profiles, time.Since(began).Round(time.Millisecond), cut.MIG, cut.MIGNodes)
	if len(cut.MIG) != len(profiles) || len(cut.MIGNodes) != len(profiles) {
		t.Errorf("%d MIG devices with %d having device nodes, want %d", len(cut.MIG), len(cut.MIGNodes), len(profiles))
	}
	time.Sleep(200 * time.Millisecond) // GPM's samples have to be 100 ms apart
	if list, err := c.Samples(t.Context()); err != nil || len(list) < len(profiles) {
		t.Errorf("%d samples, %v", len(list), err)
	} else {
		t.Logf("a MIG device: %+v, absent %v", list[len(list)-1].Reading, list[len(list)-1].Absent)
	}
}
