package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// The two schedulers, as berth up --scheduler names them. Both run in the
// process of the control plane, with the same garbage collection and with client
// limits of 5,000 requests a second, which neither reaches.
const (
	stock = "stock"
	ours  = "berth"
)

// layout says in a figure's how what both sides have in common.
const layout = "both schedulers in one process with the control plane, same GOGC, client limits lifted (kube-scheduler's own are 50 a second), client included"

// trial is one control plane on a fresh folder, with one scheduler, for one
// measurement.
type trial struct {
	*plane

	which  string // the scheduler
	client *kubernetes.Clientset
	hold   string    // the file that holds the scheduler back; "" is none
	seen   *bindings // of observe; nil is none
}

// begin starts one. With hold its scheduler starts at release. The caller ends
// it.
func begin(dir, which, fleet string, hold bool) (*trial, error) {
	t := &trial{which: which}
	args := []string{"--scheduler", which}
	if hold {
		t.hold = dir + "-hold"
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(t.hold, nil, 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--hold-scheduler", t.hold)
	}
	var err error
	if t.plane, err = up(dir, fleet, args...); err != nil {
		return nil, err
	}
	if t.client, err = connect(t.Kubeconfig); err != nil {
		return nil, errors.Join(err, t.end())
	}
	return t, nil
}

// observe begins a trial whose scheduler runs, watches what is bound, and waits for
// rest after the start to return. The caller ends it.
func observe(ctx context.Context, dir, which, fleet string, rest time.Duration) (*trial, *bindings, error) {
	t, err := begin(dir, which, fleet, false)
	if err != nil {
		return nil, nil, err
	}
	if t.seen, err = watchBindings(ctx, t.client); err == nil {
		err = pause(ctx, rest)
	}
	if err != nil {
		return nil, nil, errors.Join(err, t.end())
	}
	return t, t.seen, nil
}

// afterStart is how long a trial rests that measures time.
const afterStart = 5 * time.Second

// release lets the scheduler start.
func (t *trial) release() error {
	if err := os.Remove(t.hold); err != nil {
		return fmt.Errorf("let the scheduler go: %w", err)
	}
	t.hold = ""
	return nil
}

// end stops the control plane and removes its folder.
func (t *trial) end() error {
	if t.seen != nil {
		t.seen.stop()
	}
	if t.hold != "" {
		_ = os.Remove(t.hold)
	}
	_, err := t.down(true)
	return err
}

// connect makes a client without limits that speaks protobuf.
func connect(kubeconfig string) (*kubernetes.Clientset, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	return kubernetes.NewForConfig(cfg)
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
