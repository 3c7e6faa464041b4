package fakegpu

import (
	"fmt"
	"os"
	"slices"

	"berth.dev/berth/agent/nvml"
)

// symbols are NVML's functions behind the methods of nvml.Library and
// nvml.Device, as files may name them.
var symbols = []string{
	"nvmlInit_v2", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2", "nvmlDeviceGetCount_v2",
	"nvmlDeviceGetHandleByIndex_v2", "nvmlEventSetCreate", "nvmlEventSetWait_v2", "nvmlDeviceRegisterEvents",
	"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetPciInfoExt",
	"nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetNumGpuCores", "nvmlDeviceGetMemoryInfo_v2",
	"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage",
	"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetClockInfo",
	"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetPcieReplayCounter", "nvmlDeviceGetEncoderUtilization",
	"nvmlDeviceGetDecoderUtilization", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetFieldValues",
	"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
	"nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet", "nvmlGpmMigSampleGet", "nvmlGpmMetricsGet",
	"nvmlDeviceGetNvLinkState", "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetSupportedEventTypes",
	"nvmlDeviceSetComputeMode", "nvmlDeviceSetMemoryLimits_v1", "nvmlDeviceGetMigMode", "nvmlDeviceSetMigMode",
	"nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetGpuInstanceProfileInfo",
	"nvmlDeviceGetGpuInstancePossiblePlacements_v2", "nvmlDeviceGetGpuInstances",
	"nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy", "nvmlGpuInstanceGetComputeInstanceProfileInfo",
	"nvmlGpuInstanceGetComputeInstances", "nvmlGpuInstanceCreateComputeInstance", "nvmlComputeInstanceDestroy",
	"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId", "nvmlDeviceGetAttributes_v2",
}

// trap does to a call what the file says: nothing, FunctionNotFound, no return
// until Close, or the end of the process.
func (l *Library) trap(symbol string, c *card) error {
	l.mu.Lock()
	var crash, hang bool
	for _, t := range l.file.Crash {
		if l.springs(t, symbol, c) {
			crash = true
			l.mu.Unlock()
			if t.Symbol {
				// As the dynamic linker says it.
				fmt.Fprintf(os.Stderr, "%s: symbol lookup error: %s: undefined symbol: %s\n", os.Args[0], os.Args[0], symbol)
				l.o.Exit(127)
			} else {
				fmt.Fprintf(os.Stderr, "fatal error: the fake driver crashes at %s, as its file says\n", symbol)
				l.o.Exit(134)
			}
			break
		}
	}
	if crash {
		return nvml.Unknown // where Exit came back, in tests
	}
	for _, t := range l.file.Hang {
		hang = hang || l.springs(t, symbol, c)
	}
	missing := slices.Contains(l.file.Driver.Missing, symbol)
	l.mu.Unlock()
	if hang {
		l.o.Log.Warn("a call of the fake driver hangs, as its file says", "call", symbol)
		<-l.closed
	}
	if missing {
		return nvml.FunctionNotFound
	}
	return nil
}

// springs reports whether a trap is there, now and for this GPU.
func (l *Library) springs(t Trap, symbol string, c *card) bool {
	return t.Call == symbol && l.holds(t.After) && (t.GPU == nil || c != nil && c == l.cards[*t.GPU])
}
