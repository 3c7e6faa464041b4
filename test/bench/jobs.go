package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth.dev/berth/test/machine"
)

// benchJobs runs the controllers as a process of their own and measures its private memory before and after many training jobs are created.
func benchJobs(ctx context.Context, r *report, dir string) (err error) {
	jobs, workers, nodes := r.small(1000), 4, r.small(500)
	t := &trial{which: ours}
	if t.plane, err = up(dir, fmt.Sprintf("scale:%d", nodes), "--notebooks", "off", "--training", "off", "--serving", "off", "--no-ledger"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	if t.client, err = connect(t.Kubeconfig); err != nil {
		return err
	}
	s, err := startAlone(dir+"-controller.log", "controller", "--kubeconfig", t.Kubeconfig, "--leader-elect=false")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	if t.seen, err = watchBindings(ctx, t.client); err != nil {
		return err
	}
	if err := t.quiet(ctx); err != nil {
		return err
	}
	before, err := privateMemory(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	client, err := connectJobs(t.Kubeconfig)
	if err != nil {
		return err
	}
	used, err := machine.ProcessCPU(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	if err := (trainingLoad{jobs, workers, 1}).create(ctx, client); err != nil {
		return err
	}
	if _, err := t.seen.await(ctx, jobs*workers, 10*time.Minute); err != nil {
		return err
	}
	if _, err := t.seen.awaitRunning(ctx, jobs*workers); err != nil {
		return err
	}
	_, _, err = t.minute(ctx)
	if err != nil {
		return err
	}
	after, err := privateMemory(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	now, err := machine.ProcessCPU(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	how := fmt.Sprintf("%d PyTorchJobs of %d workers on %d nodes of 8, the controllers as a process of their own", jobs, workers, nodes)
	r.add(figure{what: "controllers without jobs", values: []float64{before}, unit: "MB", how: how + "; private memory of the process"})
	r.add(figure{what: "controllers beside the jobs", values: []float64{after}, unit: "MB", how: "the same, a minute after all run"})
	r.add(figure{what: "what the jobs add to the controllers", values: []float64{after - before}, unit: "MB", aim: 60, how: "from the two above"})
	r.add(figure{what: "CPU of the controllers for a job", values: []float64{(now - used).Seconds() * 1000 / float64(jobs)}, unit: "ms", how: "with all that follows until they rest"})
	return nil
}
