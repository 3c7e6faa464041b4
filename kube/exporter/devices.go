package exporter

import (
	"bufio"
	"bytes"
	"strings"
)

// Devices is of which devices an exporter publishes series, and some of what it publishes of them.
type Devices struct {
	GPUs      int  // GPUs with any series of DCGM
	MIG       int  // MIG devices with any
	MIGActive int  // MIG devices with DCGM_FI_PROF_GR_ENGINE_ACTIVE
	Xids      bool // Xids are counted
}

// xidCounts are the names of counts of Xids: of dcgm-exporter, where its file of metrics has them, and of Berth's agent.
var xidCounts = []string{"DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_XID_ERRORS_TOTAL", "berth_gpu_xid_errors_total"}

// DevicesOf reads DCGM metrics in Prometheus' text format. Lines it does not understand are passed over.
func DevicesOf(text []byte) (out Devices) {
	gpus, parts, active := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		for _, name := range xidCounts {
			out.Xids = out.Xids || strings.HasPrefix(strings.TrimPrefix(line, "# TYPE "), name) // one that has counted none has only this
		}
		name, rest, ok := strings.Cut(line, "{")
		end := strings.LastIndexByte(rest, '}')
		if !ok || end < 0 || !strings.HasPrefix(name, "DCGM_FI_") {
			continue
		}
		uuid, instance := firstLabel(rest[:end], uuidLabels), labelValue(rest[:end], "GPU_I_ID")
		if uuid == "" {
			continue
		}
		gpus[uuid] = true
		if instance == "" {
			continue
		}
		parts[uuid+" "+instance] = true
		if name == metricGraphics {
			active[uuid+" "+instance] = true
		}
	}
	out.GPUs, out.MIG, out.MIGActive = len(gpus), len(parts), len(active)
	return out
}
