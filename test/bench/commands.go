package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"berth.dev/berth/test/machine"
)

// manifestsName stands for the file of 100 Jobs, Deployments, and Pods, none of which start: all GPUs are held.
const manifestsName = "manifests.yaml"

// distinctName stands for another in which no two objects ask for the same.
const distinctName = "distinct.yaml"

// commandRuns is how often each command is measured.
const commandRuns = 5

// command is a command on the large cluster, and what it is held to.
type command struct {
	args     string
	code     int     // that it exits with
	cpu, mem float64 // seconds, MB
	wall     float64 // seconds
	free     bool    // of the cluster all GPUs are free, and no pod waits
}

// benchCommands measures commands as processes on a cluster that the tests of package cli
// serve: 1,000 nodes with 8,000 GPUs and 20,000 pods, of which 2,000 wait.
func benchCommands(ctx context.Context, r *report, dir string) (err error) {
	s, err := serveLargeCluster(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	const cluster = "1,000 nodes, 8,000 GPUs, 20,000 pods and 2,000 that wait, served by a program without etcd"
	for _, c := range []command{
		{args: "why w-1001 -n team-1", cpu: 1.5, mem: 200},
		{args: "why -A", cpu: 5, mem: 200},
		{args: "nodes", mem: 200, wall: 1},
		{args: "gpus", mem: 200, wall: 1},
		{args: "doctor", cpu: 5, wall: 5},
		{args: "can -f " + manifestsName, code: 3, cpu: 1.5},
		{args: "can -f " + distinctName, code: 3, cpu: 1.5},
		{args: "can -f " + distinctName, cpu: 1.5, free: true},
		{args: "lint -f " + manifestsName, cpu: 1.5},
	} {
		var used, peak, wall []float64
		busy := false
		for range commandRuns {
			args := strings.NewReplacer(manifestsName, s.kubeconfig+".manifests.yaml", distinctName, s.kubeconfig+".distinct.yaml").Replace(c.args)
			if c.free {
				args += " --kubeconfig " + s.kubeconfig + ".free"
			}
			u, err := s.measure(ctx, strings.Fields(args), c.code)
			if err != nil {
				return fmt.Errorf("berth %s: %w", c.args, err)
			}
			used, peak, wall, busy = append(used, u.cpu), append(peak, u.peak), append(wall, u.wall), busy || u.busy
		}
		name, cluster := "berth "+c.args, cluster
		if c.free {
			name, cluster = name+", GPUs free", "1,000 nodes, 8,000 GPUs, none held, and 17,000 pods, served by a program without etcd"
		}
		r.add(figure{what: name + ": CPU", values: used, unit: "s", aim: c.cpu, busy: busy, how: cluster})
		r.add(figure{what: name + ": wall", values: wall, unit: "s", aim: c.wall, wall: true, busy: busy, how: "the same"})
		r.add(figure{what: name + ": resident memory", values: peak, unit: "MB", aim: c.mem, how: "the most (VmHWM), looked at each 2 ms"})
	}
	return nil
}

// largeCluster is the program that serves the cluster.
type largeCluster struct {
	kubeconfig string
	server     *exec.Cmd
	in         io.Closer
}

// serveLargeCluster builds and starts it.
func serveLargeCluster(ctx context.Context, dir string) (*largeCluster, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	tests := filepath.Join(dir, "cli.test")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", tests, "./cli").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the tests of cli: %w: %s", err, out)
	}
	s := &largeCluster{kubeconfig: filepath.Join(dir, "kubeconfig"), server: exec.CommandContext(ctx, tests)}
	s.server.Env = append(os.Environ(), "BERTH_TEST_SERVE_CLUSTER="+s.kubeconfig)
	var err error
	if s.in, err = s.server.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.server.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(time.Minute); ; {
		if _, err := os.Stat(s.kubeconfig); err == nil {
			return s, nil
		}
		if time.Now().After(end) {
			return nil, errors.Join(errors.New("the large cluster is not served after a minute"), s.stop())
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, errors.Join(err, s.stop())
		}
	}
}

func (s *largeCluster) stop() error { return errors.Join(s.in.Close(), s.server.Wait()) }

// commandUse is what a command took.
type commandUse struct {
	cpu, wall, peak float64 // seconds, seconds, MB
	busy            bool
}

// measure runs a command. Its own use of memory is asked for while it runs: what
// the system reports at its end counts the process that has started it, too.
func (s *largeCluster) measure(ctx context.Context, args []string, code int) (u commandUse, err error) {
	cmd := exec.CommandContext(ctx, program(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
	cmd.Stdout = io.Discard
	served, err := machine.ProcessCPU(s.server.Process.Pid)
	if err != nil {
		return u, err
	}
	watch, err := startWatch()
	if err != nil {
		return u, err
	}
	if err := cmd.Start(); err != nil {
		return u, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for running := true; running; {
		select {
		case err = <-ended:
			running = false
		case <-look.C:
			if mb, err := peakMemory(cmd.Process.Pid); err == nil {
				u.peak = max(u.peak, mb)
			}
		}
	}
	if cmd.ProcessState.ExitCode() != code {
		return u, fmt.Errorf("exit code %d: %w", cmd.ProcessState.ExitCode(), err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	now, err := machine.ProcessCPU(s.server.Process.Pid)
	if err != nil {
		return u, err
	}
	wall, _, busy, err := watch.stop(used + now - served)
	u.cpu, u.wall, u.busy = used.Seconds(), wall.Seconds(), busy
	return u, err
}
