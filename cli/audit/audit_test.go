package audit

import (
	"io"
	"testing"
	"time"

	"berth.dev/berth/cli/client"
	core "berth.dev/berth/core/audit"
	"berth.dev/berth/test/screen"
)

var now = time.Date(2026, 11, 24, 15, 4, 5, 0, time.UTC)

// lines are what happened to a pod that had to wait, was placed, and gave way, and to a queue.
func lines() []core.Row {
	one := core.Row{Namespace: "vision", Pod: "resnet50-imagenet-worker-0", Kind: "Job", Owner: "resnet50-imagenet", User: "ann", Queue: "vision", UID: "u-1"}
	row := func(ago time.Duration, act core.Act, node, reason, detail string) core.Row {
		r := one
		r.At, r.Act, r.Node, r.Reason, r.Detail = now.Add(-ago), act, node, reason, detail
		return r
	}
	return []core.Row{
		row(3*time.Hour, core.Asked, "", "", "2 nvidia.com/gpu"),
		row(2*time.Hour, core.Waits, "", "BERTH-C03", "0/6 nodes are available: 2 Insufficient nvidia.com/gpu, 4 node(s) didn't match Pod's node affinity/selector."),
		row(time.Hour, core.Granted, "gpu-a100-1", "", "gpu-a100-1: 0,1"),
		row(time.Minute, core.Preempted, "gpu-a100-1", "QuotaReclaimed", "for Job/whisper of queue speech, which takes back 2 GPUs of its quota"),
		{At: now, Act: core.Granted, Namespace: "speech", Pod: "late", Node: "gpu-t4-1", UID: "u-2"},
	}
}

func TestTheTableOnScreens(t *testing.T) {
	screen.File(t, "screens.txt", func(w io.Writer) {
		c := &command{o: client.Options{Out: w, Err: w}}
		if err := c.print(w, &core.Report{Rows: lines()}); err != nil {
			t.Fatal(err)
		}
	})
}
