package smi

import "fmt"

// How to get, in the simulated fleet, what a flag does to a real GPU.
const (
	byFleet = `state it in the fleet file and start again with "berth up --fleet FILE"`
	byMIG   = `give the MIG profiles of each GPU in the fleet file and start again with "berth up --fleet FILE"`
	bySim   = `use "berth sim break" and "berth sim heal"`
)

// changes holds every flag of nvidia-smi that would change a GPU, and what to do
// instead.
var changes = map[string]string{
	"-mig": byMIG, "--multi-instance-gpu": byMIG,
	"-cgi": byMIG, "--create-gpu-instance": byMIG,
	"-cci": byMIG, "--create-compute-instance": byMIG,
	"-dgi": byMIG, "--destroy-gpu-instance": byMIG,
	"-dci": byMIG, "--destroy-compute-instance": byMIG,
	"-r": bySim, "--gpu-reset": bySim,
	"-p": bySim, "--reset-ecc-errors": bySim,
	"-e": byFleet, "--ecc-config": byFleet,
	"-pm": byFleet, "--persistence-mode": byFleet,
	"-c": byFleet, "--compute-mode": byFleet,
	"-pl": byFleet, "--power-limit": byFleet,
	"-ac": byFleet, "--applications-clocks": byFleet,
	"-rac": byFleet, "--reset-applications-clocks": byFleet,
	"-lgc": byFleet, "--lock-gpu-clocks": byFleet,
	"-rgc": byFleet, "--reset-gpu-clocks": byFleet,
	"-lmc": byFleet, "--lock-memory-clocks": byFleet,
	"-rmc": byFleet, "--reset-memory-clocks": byFleet,
	"-am": byFleet, "--accounting-mode": byFleet,
	"-gtt": byFleet, "--gpu-target-temp": byFleet,
	"-gom": byFleet, "--gom": byFleet,
	"-dm": byFleet, "--driver-model": byFleet,
}

// refuse says that flag would change a GPU, and what to do instead.
func (c *call) refuse(flag, instead string) int {
	fmt.Fprintf(c.stderr, "nvidia-smi %s would change a GPU, and the GPUs of node %s are simulated by Berth: %s\n",
		flag, c.view().Node, instead)
	return exitRefused
}
