package agent

import (
	"strings"
	"testing"
	"testing/fstest"

	"berth.dev/berth/agent/labels"
	"berth.dev/berth/agent/nvml"
)

func TestAMachineHasAGPUWhereOneIsOnItsPCIBus(t *testing.T) {
	device := func(vendor, class string) fstest.MapFS {
		at := "bus/pci/devices/0000:1a:00.0/"
		return fstest.MapFS{
			"bus/pci/devices/0000:00:1f.0/vendor": {Data: []byte("0x8086\n")}, "bus/pci/devices/0000:00:1f.0/class": {Data: []byte("0x030000\n")},
			at + "vendor": {Data: []byte(vendor + "\n")}, at + "class": {Data: []byte(class + "\n")},
		}
	}
	for _, tt := range []struct {
		name string
		sys  fstest.MapFS
		none bool
	}{
		{"a data center GPU", device("0x10de", "0x030200"), false},
		{"a GPU with a display", device("0x10de", "0x030000"), false},
		{"the sound of one that a virtual machine was not given", device("0x10de", "0x040300"), true},
		{"another maker's", device("0x1002", "0x030200"), true},
		{"a machine without PCI", fstest.MapFS{}, true},
		{"a folder that is none", fstest.MapFS{"bus/pci/devices": {Data: []byte("x")}}, false},
	} {
		if got := noGPU(tt.sys); got != tt.none {
			t.Errorf("%s: noGPU = %v, want %v", tt.name, got, tt.none)
		}
	}
}

func TestADriverThatCannotBeReadMakesTheAgentUnwellWhereThereAreGPUs(t *testing.T) {
	one := nvml.Snapshot{GPUs: []nvml.GPU{gpuNamed(0, "GPU-a")}}
	for _, tt := range []struct {
		name string
		s    Status
		bare bool
		want string // in the error; "" is none
	}{
		{"before anything is known", Status{Unread: notRead}, false, notRead},
		{"a driver that was never read, of GPUs that are there", Status{Unread: "no library"}, false, "no library"},
		{"a driver that was never read, on a node without GPUs", Status{Unread: "no library"}, true, ""},
		{"a driver that is upgraded", Status{Snapshot: one, Unread: "mismatch"}, true, "mismatch"},
		{"a driver that is read", Status{Snapshot: one}, false, ""},
	} {
		err := unhealthy(tt.s, func() bool { return tt.bare })
		if got := err != nil; got != (tt.want != "") || got && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: unwell = %v, want %q", tt.name, err, tt.want)
		}
	}
}

// The configuration is mostly there before the driver has answered. Labels and
// inventory of an agent that ran before must not go for that moment.
func TestNothingIsWrittenOfANodeWhoseDriverHasNotBeenRead(t *testing.T) {
	// A writer without a client cannot write.
	a := &agent{cluster: &cluster{writer: labels.NewWriter(labels.WriterOptions{})}}
	for _, why := range []string{notRead, "NVML library not found"} {
		a.status.Store(&Status{InForce: true, Unread: why})
		if err := a.write(t.Context()); err != nil {
			t.Errorf("%s: %v", why, err)
		}
	}
}
