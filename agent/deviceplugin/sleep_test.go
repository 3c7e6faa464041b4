package deviceplugin

import (
	"context"
	"os"
	"testing"
	"time"

	"berth.dev/berth/agent/deviceplugin/kubelettest"
)

// idle is a node that never changes.
type idle struct{ Node }

// A plugin that is registered, or stands back, waits for events only: the
// node's CPU is the users'.
func TestAPluginAtRestArmsNoTimer(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		dir, err := os.MkdirTemp("", "dp") //nolint:usetesting // t.TempDir has the test's name, which is too long
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		k := kubelettest.New(dir, 1)
		if err := k.Start(); err != nil {
			t.Fatal(err)
		}
		defer k.Stop()
		other := &kubelettest.Plugin{Dir: dir, Socket: "nvidia-gpu.sock", Resource: "nvidia.com/gpu", IDs: []string{"GPU-a"}}
		limit, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		told := make(chan string, 1)
		if foreign {
			if err := other.Start(limit); err != nil {
				t.Fatal(err)
			}
			defer other.Stop()
		}
		o := Options{Dir: dir, Foreign: func(_, detail string) { told <- detail }}.withDefaults()
		p := newPlugin("nvidia.com/gpu", o, idle{}, func(error) {})
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); p.run(ctx) }()
		p.offer([]Device{{ID: "gpu-0", Healthy: true, NUMANode: -1}}, true)
		if foreign {
			<-told
		} else if err := k.Await(limit, func() bool { return k.Serving("nvidia.com/gpu") && len(k.Devices("nvidia.com/gpu")) == 1 }); err != nil {
			t.Fatal(err)
		}
		for !foreign && o.Counters.Registrations.Load() == 0 { // the kubelet has the devices before the plugin has its answer
			if limit.Err() != nil {
				t.Fatal("the kubelet's answer did not come")
			}
			time.Sleep(time.Millisecond)
		}
		stop()
		<-done
		p.foreign = nil
		p.step(ctx) // what was still to be looked at
		if at := p.next(); !at.IsZero() {
			t.Errorf("with another plugin %v: a timer runs out in %s, want none", foreign, time.Until(at))
		}
	}
}
