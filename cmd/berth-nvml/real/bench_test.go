//go:build cgo

package real_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/cmd/berth-nvml/fakelib"
)

// BenchmarkScrape asks what 8 GPUs and their 56 MIG devices show, with new
// samples of GPM each time.
func BenchmarkScrape(b *testing.B) {
	lib := fakelib.Build(b)
	lines := []string{"driver 570.124.06 12080"}
	for i := range 8 {
		lines = append(lines, fakelib.GPU(i, "mig=1"))
		for k := range 7 {
			lines = append(lines, fmt.Sprintf("mig gpu=%d uuid=MIG-%d-%d gi=%d profile=19 start=%d", i, i, k, k+1, k))
		}
	}
	lib.Write(b, lines...)
	b.Setenv("NVML_STILL", "1") // the stand-in then costs next to nothing
	d := nvml.NewDriver(open(b, lib))
	if s := d.Snapshot(); s.Failed != "" {
		b.Fatal(s.Failed)
	}
	now := time.Now()
	for b.Loop() {
		now = now.Add(time.Second)
		list, _, err := d.Samples(now)
		if err != nil || len(list) != 64 || math.IsNaN(list[0].Reading.TensorActiveRatio) {
			b.Fatalf("%d samples, %v", len(list), err)
		}
	}
}
