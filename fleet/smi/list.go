package smi

import (
	"bytes"
	"fmt"
	"strings"
)

// list answers -L: one line a GPU, and below it one for each MIG device.
func list(b *bytes.Buffer, v View) {
	for _, d := range v.Devices {
		fmt.Fprintf(b, "GPU %d: %s (UUID: %s)\n", d.GPU.Index, d.GPU.Product, d.GPU.UUID)
		for i, m := range d.GPU.MIG {
			fmt.Fprintf(b, "  MIG %-11s Device %2d: (UUID: %s)\n", m.Profile, i, m.UUID)
		}
	}
}

// version answers --version. NVML's version is the driver's without its patch.
func version(b *bytes.Buffer, v View) {
	nvml := v.Driver
	if parts := strings.SplitN(v.Driver, ".", 3); len(parts) == 3 {
		nvml = parts[0] + "." + parts[1]
	}
	fmt.Fprintf(b, "NVIDIA-SMI version  : %s\nNVML version        : %s\nDRIVER version      : %s\nCUDA Version        : %s\n",
		v.Driver, nvml, v.Driver, v.CUDA)
	b.WriteString(footer(v))
}

// footer is the line by which a person sees that the GPUs are simulated.
func footer(v View) string {
	return fmt.Sprintf("Simulated by Berth: node %s has no NVIDIA hardware, and its readings are computed.\n", v.Node)
}

// help answers -h. It names what is simulated, and nothing else.
const help = `NVIDIA System Management Interface, simulated by Berth

nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...

    -h,   --help                Print this text.
          --version             Print the versions of driver and CUDA.
    -L,   --list-gpus           List the GPUs and their MIG devices with UUIDs.
    [no options]                Show a summary of the GPUs and what runs on them.
    -i,   --id=ID[,ID]          Only these GPUs, by index, UUID or bus ID.
    -l,   --loop=SEC            Repeat every SEC seconds until interrupted.
    -lms, --loop-ms=MS          Repeat every MS milliseconds until interrupted.
    -q,   --query               Show all that is known of each GPU.
    -d,   --display=TYPE[,TYPE] With -q: only MEMORY, UTILIZATION, ECC, TEMPERATURE,
                                POWER, CLOCK, COMPUTE, PIDS, PERFORMANCE, ROW_REMAPPER.
          --query-gpu=FIELDS    Fields of each GPU; see --help-query-gpu.
          --query-compute-apps=FIELDS
                                Fields of each process; see --help-query-compute-apps.
          --format=csv[,noheader][,nounits]
                                With the two above.

    dmon                        A row for each GPU every second (-i -s -c -d -o).
    pmon                        A row for each process every second (-i -s -c -d -o).
    mig                         MIG profiles and devices (-lgip -lgipp -lgi -lci).
    topo                        How the GPUs are linked (-m).

Commands that change a GPU are rejected: the fleet file defines the GPUs, and
"berth sim" breaks and heals them.
`
