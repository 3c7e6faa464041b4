package fleet

import (
	"testing"
	"time"
)

// Containers have no time zone: nvidia-smi prints the time of the day that date prints in the same container.
func TestTheTimeOfNvidiaSMIIsThatOfContainers(t *testing.T) {
	late := time.Date(2026, 11, 30, 23, 59, 59, 0, time.FixedZone("of the machine", -8*60*60))
	f := &Fleet{now: func() time.Time { return late }, nodes: map[string]*node{"n": {name: "n", fleet: &Fleet{}}}}
	for _, name := range []string{"n", "gone"} {
		if got := f.View(name, nil).Now.Format(time.DateTime); got != "2026-12-01 07:59:59" {
			t.Errorf("on node %s nvidia-smi prints %s", name, got)
		}
	}
}
