package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// benchBuild compiles everything again, with an empty build cache (modules are
// there already): Kubernetes' parts and etcd alone, then bin/berth.
func benchBuild(_ context.Context, r *report, dir string) error {
	var cpus []time.Duration
	for i, b := range []struct {
		what, how string
		args      []string
	}{
		{"first build of the four parts and etcd alone", "`go build ./test/bench/alone`", []string{"go", "build", "-ldflags=-s -w", "-o", "/dev/null", "./test/bench/alone"}},
		{"first build of bin/berth", "`go build ./cmd/berth`", []string{"go", "build", "-ldflags=-s -w", "-o", "/dev/null", "./cmd/berth"}},
	} {
		cache := filepath.Join(dir, fmt.Sprint(i))
		cmd := exec.Command(b.args[0], b.args[1:]...)
		cmd.Env = append(os.Environ(), "GOCACHE="+cache, "CGO_ENABLED=0")
		watch, err := startWatch()
		if err != nil {
			return err
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", b.how, err, out)
		}
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		wall, _, busy, err := watch.stop(used)
		if err != nil {
			return err
		}
		if err := os.RemoveAll(cache); err != nil {
			return err
		}
		cpus = append(cpus, used)
		r.add(figure{what: b.what + ", CPU", values: []float64{used.Seconds()}, unit: "s", how: b.how + " with an empty cache"})
		r.add(figure{what: b.what + ", wall", values: []float64{wall.Seconds()}, unit: "s", wall: true, busy: busy, how: "the same"})
	}
	r.add(figure{what: "first build of bin/berth against the parts alone, CPU", values: []float64{cpus[1].Seconds() / cpus[0].Seconds()}, unit: "times", aim: 1.1, how: "the first two"})
	return nil
}
