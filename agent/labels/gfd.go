package labels

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/input"
)

// DefaultMachineFile is where Linux tells what machine it runs on.
const DefaultMachineFile = "/sys/class/dmi/id/product_name"

// prefix of NVIDIA's labels.
const prefix = "nvidia.com/"

// Discovery is what GPU Feature Discovery's labels are made of beside the GPUs. It
// is read once, at the start.
type Discovery struct {
	Machine string    // as ReadMachine gives it; "" writes no label
	Start   time.Time // for gfd.timestamp; zero writes no label
	VGPU    VGPU
}

// ReadMachine reads the machine's name from a file such as DefaultMachineFile. A
// file that cannot be read is a machine without a name.
func ReadMachine(path string) string {
	data, err := input.ReadFile(path, input.Config)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// GFD returns the labels of GPU Feature Discovery for the GPUs of a snapshot that are
// offered with a sharing. A node without GPUs, or whose driver cannot be read, has
// none: a label tells of something that can be asked for. Lost GPUs count, so that
// labels do not flap with their health. Values that Kubernetes would refuse, and
// names that OwnsLabel does not have, are left out.
func GFD(s nvml.Snapshot, sharing gpu.Sharing, d Discovery) map[string]string {
	node := s.Node()
	node.Machine = d.Machine
	facts := map[string]gpu.Facts{}
	for _, g := range s.GPUs {
		facts[g.UUID] = gpu.Facts{
			ComputeMajor: g.ComputeMajor, ComputeMinor: g.ComputeMinor, Display: g.Display,
			MIGCapable: g.MIGCapable, Profiles: g.Profiles, Fabric: g.Fabric,
		}
	}
	out := gpu.DriverLabels(node, sharing, facts)
	if len(out) == 0 {
		return out
	}
	if !d.Start.IsZero() {
		out[prefix+"gfd.timestamp"] = strconv.FormatInt(d.Start.Unix(), 10)
	}
	if d.VGPU.Present {
		out[prefix+"vgpu.present"] = "true"
		out[prefix+"vgpu.host-driver-version"] = d.VGPU.HostDriver
		out[prefix+"vgpu.host-driver-branch"] = d.VGPU.HostBranch
	}
	maps.DeleteFunc(out, func(key, value string) bool {
		return len(validation.IsValidLabelValue(value)) > 0 || !OwnsLabel(key) // the API server would refuse all of them
	})
	return out
}
