package process

import (
	"time"

	"github.com/spf13/pflag"

	"berth.dev/berth/cli/term"
)

// NodePolicy says how GPU nodes are kept for GPU work: see docs/gpu-nodes.md.
type NodePolicy struct {
	OtherPods    string        // open, report or refuse pods that ask for no GPU
	ReportStuck  time.Duration // pods that hold GPUs and cannot run get an event; 0 is never
	ReserveAfter time.Duration // a place is kept for a pod that waits so long and is overtaken; 0 is never
	ReleaseStuck time.Duration // and are deleted, if they have a controller; 0 is never
}

// AddFlags are those of Berth's scheduler, wherever it runs.
func (p *NodePolicy) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&p.OtherPods, "other-pods", "open", "pods without GPUs on GPU nodes: open (allow), report (with an event), or refuse")
	f.DurationVar(&p.ReportStuck, "report-stuck", 10*time.Minute, "report pods that hold GPUs but crash or cannot pull their image, after this time; 0 disables")
	f.DurationVar(&p.ReserveAfter, "reserve-after", 10*time.Second, "keep GPUs that become free for a pod or gang that has waited this long while later pods started; 0 disables")
	f.DurationVar(&p.ReleaseStuck, "release-stuck", 0, "delete such pods after this time if they have a controller; 0 disables")
}

// Check refuses what cannot be meant.
func (p *NodePolicy) Check() error {
	switch p.OtherPods {
	case "open", "report", "refuse":
	default:
		return term.Usagef("invalid --other-pods %q: must be open, report, or refuse", p.OtherPods)
	}
	if p.ReportStuck < 0 || p.ReleaseStuck < 0 {
		return term.Usagef("invalid --report-stuck or --release-stuck: must be a duration such as 10m, or 0 to disable")
	}
	if p.ReserveAfter < 0 {
		return term.Usagef("invalid --reserve-after %v: must be a duration such as 10s, or 0 to disable", p.ReserveAfter)
	}
	return nil
}

// Args are the flags that give p, for another process.
func (p *NodePolicy) Args() []string {
	return []string{"--other-pods", p.OtherPods, "--report-stuck", p.ReportStuck.String(), "--release-stuck", p.ReleaseStuck.String(), "--reserve-after", p.ReserveAfter.String()}
}
