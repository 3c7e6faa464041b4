package main

import (
	"context"
	"time"

	"berth.dev/berth/test/machine"
)

// idleFor is how long idle CPU is measured; it spans whole lease periods.
const idleFor = 2 * time.Minute

// benchScale measures 100 and 1,000 nodes: time to register, memory, idle CPU.
func benchScale(_ context.Context, r *report, dir string) error {
	for _, s := range []struct {
		fleet               string
		idleAim, rssAim, in float64
	}{{"scale:100", 5, 0, 0}, {"scale:1000", 10, 700, 6}} {
		bare, err := up(dir+"-bare", "none")
		if err != nil {
			return err
		}
		if _, err := bare.down(true); err != nil {
			return err
		}
		p, err := up(dir, s.fleet)
		if err != nil {
			return err
		}
		time.Sleep(30 * time.Second)
		before, err := machine.ProcessCPU(p.PID)
		if err != nil {
			return err
		}
		time.Sleep(idleFor)
		after, err := machine.ProcessCPU(p.PID)
		if err != nil {
			return err
		}
		mb, err := memory(p.PID)
		if err != nil {
			return err
		}
		if _, err := p.down(true); err != nil {
			return err
		}
		r.add(figure{
			what: s.fleet + ": nodes registered, wall", values: []float64{p.Seconds - bare.Seconds}, unit: "s", aim: s.in, wall: true, busy: bare.busy || p.busy,
			how: "time to ready less that of the control plane alone",
		})
		r.add(figure{what: s.fleet + ": CPU to ready", values: []float64{p.ready.Seconds()}, unit: "s", how: "CPU of the process when it is ready"})
		r.add(figure{
			what: s.fleet + ": idle CPU", values: []float64{100 * (after - before).Seconds() / idleFor.Seconds()}, unit: "% of a core", aim: s.idleAim,
			how: "over " + idleFor.String(),
		})
		r.add(figure{what: s.fleet + ": resident memory", values: []float64{mb}, unit: "MB", aim: s.rssAim, how: "VmRSS after that"})
	}
	return nil
}
