package main

import (
	"context"
	"time"

	"berth.dev/berth/test/machine"
)

const (
	settles  = 90 * time.Second // what a new control plane has left to do
	restsFor = 5 * time.Minute
)

// benchRest measures what the ledger, the readings, and the alerts of `berth up` take with the default fleet, at rest: two processes beside
// each other in the same minutes, so both have the same machine.
func benchRest(_ context.Context, r *report, dir string) error {
	with, err := up(dir+"-with", "default")
	if err != nil {
		return err
	}
	defer with.down(true) //nolint:errcheck // a folder of this run
	without, err := up(dir+"-without", "default", "--no-ledger")
	if err != nil {
		return err
	}
	defer without.down(true) //nolint:errcheck // the same
	time.Sleep(settles)
	measure := func() (a, b time.Duration, err error) {
		if a, err = machine.ProcessCPU(with.PID); err != nil {
			return 0, 0, err
		}
		b, err = machine.ProcessCPU(without.PID)
		return a, b, err
	}
	a, b, err := measure()
	if err != nil {
		return err
	}
	time.Sleep(restsFor)
	a2, b2, err := measure()
	if err != nil {
		return err
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / restsFor.Seconds() }
	r.add(figure{what: "`berth up` with the default fleet at rest, CPU", values: []float64{percent(a2 - a)}, unit: "% of a core", how: "6 nodes with 34 GPUs and 82 devices, whose 2,000 series are read every 15 s; over " + restsFor.String()})
	r.add(figure{what: "the same with `--no-ledger`, in the same minutes", values: []float64{percent(b2 - b)}, unit: "% of a core", how: "no ledger, readings, and alerts"})
	r.add(figure{what: "what these take", values: []float64{percent(a2 - a - (b2 - b))}, unit: "% of a core", aim: 0.5, how: "from the two above"})
	return nil
}
