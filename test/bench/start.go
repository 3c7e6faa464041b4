package main

import (
	"context"
	"time"
)

// startRuns is how often a start is measured.
const startRuns = 3

// benchStart measures start, restart and stop with the default fleet, in turn
// with the bare control plane (no nodes), so that their ratio is of one run.
func benchStart(_ context.Context, r *report, dir string) error {
	var cold, wall, bare, ratio, again, stop, rss []float64
	busy := false
	for range startRuns {
		b, err := up(dir+"-bare", "none")
		if err != nil {
			return err
		}
		if _, err := b.down(true); err != nil {
			return err
		}
		p, err := up(dir, "default")
		if err != nil {
			return err
		}
		busy = busy || b.busy || p.busy
		bare, cold, wall, ratio = append(bare, b.Seconds), append(cold, p.ready.Seconds()), append(wall, p.Seconds), append(ratio, p.Seconds/b.Seconds)
		if _, err := p.down(false); err != nil {
			return err
		}
		if p, err = up(dir, "default"); err != nil {
			return err
		}
		again = append(again, p.ready.Seconds())
		time.Sleep(20 * time.Second)
		mb, err := memory(p.PID)
		if err != nil {
			return err
		}
		took, err := p.down(false)
		if err != nil {
			return err
		}
		if _, err := p.down(true); err != nil {
			return err
		}
		rss, stop = append(rss, mb), append(stop, took.Seconds())
	}
	up := "`berth up --detach --fleet default`"
	r.add(figure{what: "start on an empty folder, CPU", values: cold, unit: "s", aim: 3, how: up + ", CPU of the process when it is ready"})
	r.add(figure{what: "start on an empty folder, wall", values: wall, unit: "s", wall: true, busy: busy, how: up + ", from exec to ready"})
	r.add(figure{what: "the control plane alone, wall", values: bare, unit: "s", wall: true, busy: busy, how: "`--fleet none`, in turn with the above"})
	r.add(figure{what: "wall against the control plane alone", values: ratio, unit: "times", aim: 1.15, how: "run by run"})
	r.add(figure{what: "start on existing data, CPU", values: again, unit: "s", aim: 1.85, how: up + " again; the aim was 1.8 before there was a ledger"})
	r.add(figure{what: "stop, wall", values: stop, unit: "s", aim: 2, wall: true, busy: busy, how: "`berth down`"})
	r.add(figure{what: "resident memory, default fleet", values: rss, unit: "MB", aim: 425, how: "VmRSS 20 s after ready; the aim was 400 before there was a ledger"})
	return nil
}
