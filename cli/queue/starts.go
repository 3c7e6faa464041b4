package queue

import (
	"context"
	"time"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/explain"
	objects "berth.dev/berth/kube/explain"
)

// expect finds when what waits is likely to start, as `berth why` does. Without the right to read run times, few starts are known.
func (s *state) expect(ctx context.Context, c *client.Cluster, o client.Options) error {
	api, err := c.Dynamic(o)
	if err != nil {
		return err
	}
	f := (&notebook.Notebooks{Cluster: c, Client: api, Options: o}).Foresee(ctx)
	around := objects.Situation{
		Nodes: s.situation.Nodes, Pods: s.pods, DRA: c.DRA(ctx), Queues: s.count, Owners: s.situation.Owners,
		RunTimes: f.RunTimes, Ends: f.Ends, Outcomes: f.Outcomes,
	}
	s.starts, err = around.Starts(o.Time())
	return err
}

// expected notes when a workload is likely to start; the zero value is not known.
func (r *waitRow) expected(l explain.Likely, now time.Time) {
	if l.At.IsZero() {
		return
	}
	r.starts, r.LikelyStart, r.NineOfTenBy = l.Short(now), term.Stamp(l.At), term.Stamp(l.By)
}
