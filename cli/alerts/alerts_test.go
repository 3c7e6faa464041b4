package alerts

import (
	"io"
	"testing"
	"time"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/test/screen"
)

func TestTheTableOnScreens(t *testing.T) {
	now := time.Date(2026, 11, 24, 15, 4, 5, 0, time.UTC)
	list := []Alert{
		{Name: "GPUUncorrectableEcc", Severity: "critical", State: "firing", Since: now.Add(-5 * time.Minute), Summary: "GPU 3 of node a100-1 has had 2 uncorrectable memory errors; drain the node, and have the GPU replaced"},
		{Name: "GPUHeldIdle", Severity: "warning", State: "pending", Since: now.Add(-90 * time.Second), Summary: "notebook vision/quiet holds 1 GPU and has not used it for an hour"},
		{Name: "GPUNodeIdle", Severity: "info", State: "firing", Since: now.Add(-26 * time.Hour)},
	}
	screen.File(t, "screens.txt", func(w io.Writer) {
		c := &command{o: client.Options{Out: w, Err: w, Now: func() time.Time { return now }}}
		if err := c.print(list, 0); err != nil {
			t.Fatal(err)
		}
	})
}
