package rules_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"golang.org/x/sys/unix"

	"berth.dev/berth/metrics/rules"
	"berth.dev/berth/metrics/store"
)

// BenchmarkRound is a round of all rules over 1,000 GPUs, all of them held, with 12 readings each.
func BenchmarkRound(b *testing.B) {
	s := store.New(store.Options{})
	var batch []store.Sample
	add := func(v float64, name string, pairs ...string) {
		r, _ := s.Series(labels.FromStrings(append(pairs, "__name__", name)...))
		batch = append(batch, store.Sample{Series: r, Value: v})
	}
	for i := range 1000 {
		gpu, uuid, node, pod := fmt.Sprint(i%8), fmt.Sprint("GPU-", i), fmt.Sprint("n", i/8), fmt.Sprint("p", i)
		for _, name := range []string{
			"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_XID_ERRORS",
			"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
		} {
			v := 0.5
			if strings.Contains(name, "REMAP") {
				v = 0 // the GPUs are well
			}
			add(v, name, "gpu", gpu, "UUID", uuid, "hostname", node, "namespace", "ml", "pod", pod)
		}
		add(1, "berth_gpu_held", "node", node, "gpu", gpu, "UUID", uuid, "namespace", "ml", "pod", pod, "kind", "Job", "workload", pod, "user", "ada", "queue", "ml")
		add(80<<30, "berth_gpu_memory_bytes", "node", node, "gpu", gpu, "UUID", uuid)
		if i%8 == 0 {
			for _, state := range []string{"labeled", "present", "held", "free", "unhealthy"} {
				add(map[string]float64{"labeled": 8, "present": 8, "held": 8}[state], "berth_node_gpus", "node", node, "state", state)
			}
		}
	}
	at := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for range 250 {
		at = at.Add(15 * time.Second)
		s.Append(at, batch)
	}
	e := rules.NewEvaluator(promql.NewEngine(promql.EngineOpts{MaxSamples: 5e6, Timeout: time.Minute}), s, rules.Rules())
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		at = at.Add(15 * time.Second)
		s.Append(at, batch)
		e.Evaluate(context.Background(), at)
	}
	if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano())/1e6/float64(b.N), "cpu-ms/op")
	for name, err := range e.Last().Errs {
		b.Errorf("%s: %v", name, err)
	}
}
