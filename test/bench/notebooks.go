package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// notebookRuns is how often one notebook is applied, bound, stopped and deleted.
const notebookRuns = 15

// benchNotebooks measures one notebook after another as a user sees it, many at
// once, and what many cost while nothing happens.
func benchNotebooks(ctx context.Context, r *report, dir string) error {
	if err := oneByOne(ctx, r, dir+"-one"); err != nil {
		return err
	}
	if err := atOnce(ctx, r, dir+"-many"); err != nil {
		return err
	}
	return notebooksAtRest(ctx, r, dir+"-rest")
}

// oneByOne applies a notebook with kubectl, waits until its pod is bound and
// runs, stops it, and waits until `berth gpus` shows its GPU free.
func oneByOne(ctx context.Context, r *report, dir string) (err error) {
	t, seen, err := observe(ctx, dir, ours, "default", afterStart)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	notebooks, err := connectNotebooks(t.Kubeconfig)
	if err != nil {
		return err
	}
	var bound, free []float64
	busy := false
	for i := range notebookRuns {
		name := fmt.Sprintf("one-%d", i+1)
		var once lifetime
		used, err := t.span(func(began time.Time) (time.Time, error) {
			var err error
			once, err = t.live(ctx, seen, notebooks, name, dir)
			return time.Now(), err
		})
		if err != nil {
			return fmt.Errorf("notebook %s: %w", name, err)
		}
		bound, free, busy = append(bound, once.bound.Seconds()), append(free, once.free.Seconds()), busy || used.busy
	}
	r.add(figure{
		what: "`kubectl apply` of a notebook to its pod bound", values: bound, unit: "s", aim: 0.3, wall: true,
		how: "from the start of kubectl to the binding as a client's watch sees it; fleet default, free GPUs, one GPU each, one after the other",
	})
	r.add(figure{
		what: "end of a stopped notebook's pod to its GPU free in `berth gpus`", values: free, unit: "s", aim: 2, each: true, wall: true,
		how: "from the pod's deletion as the client sees it to the end of the first `berth gpus -o json` without a holder",
	})
	return nil
}

// lifetime is how long two steps of one notebook took.
type lifetime struct{ bound, free time.Duration }

// live takes one notebook from kubectl apply to a free GPU.
func (t *trial) live(ctx context.Context, seen *bindings, notebooks *notebooks, name, dir string) (out lifetime, err error) {
	raw, err := json.Marshal(newNotebook(name, 1))
	if err != nil {
		return out, err
	}
	file := filepath.Join(dir, name+".json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return out, err
	}
	seen.reset()
	began := time.Now()
	cmd := exec.Command(filepath.Join(filepath.Dir(program()), "kubectl"), "--kubeconfig", t.Kubeconfig, "apply", "-f", file)
	if said, err := cmd.CombinedOutput(); err != nil {
		return out, fmt.Errorf("kubectl apply: %w: %s", err, said)
	}
	at, err := seen.await(ctx, 1, 30*time.Second)
	if err != nil {
		return out, err
	}
	out.bound = at.Sub(began)
	if _, err := seen.awaitRunning(ctx, 1); err != nil {
		return out, err
	}
	if err := notebooks.stop(ctx, name); err != nil {
		return out, err
	}
	if err := t.gone(ctx, name+"-0"); err != nil {
		return out, err
	}
	for ended := time.Now(); ; {
		held, err := holds(t.Kubeconfig, name+"-0")
		if err != nil {
			return out, err
		}
		if out.free = time.Since(ended); !held {
			return out, notebooks.remove(ctx, name)
		}
		if out.free > time.Minute {
			return out, errors.New("its GPU is held a minute after its pod has ended")
		}
	}
}

// gone waits until a pod is no more.
func (t *trial) gone(ctx context.Context, pod string) error {
	w, err := t.client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + pod, ResourceVersion: "0"})
	if err != nil {
		return err
	}
	defer w.Stop()
	for limit := time.After(2 * time.Minute); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, ok := <-w.ResultChan():
			if !ok || e.Type == "DELETED" {
				return nil
			}
		case <-limit:
			return fmt.Errorf("pod %s is there two minutes after its notebook was stopped", pod)
		}
	}
}

// holds reports whether `berth gpus` shows a pod as a holder.
func holds(kubeconfig, pod string) (bool, error) {
	out, err := berth("gpus", "--kubeconfig", kubeconfig, "-o", "json")
	return strings.Contains(string(out), `"`+pod+`"`), err
}

// atOnce creates many notebooks at once.
func atOnce(ctx context.Context, r *report, dir string) (err error) {
	n := r.small(500)
	t, seen, err := observe(ctx, dir, ours, fmt.Sprintf("scale:%d", r.small(100)), afterStart)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	notebooks, err := connectNotebooks(t.Kubeconfig)
	if err != nil {
		return err
	}
	used, err := t.span(func(began time.Time) (time.Time, error) {
		if err := notebooks.create(ctx, "many", n, 1); err != nil {
			return began, err
		}
		return seen.await(ctx, n, time.Minute)
	})
	if err != nil {
		return err
	}
	how := fmt.Sprintf("%d notebooks of one GPU on %d nodes of 8, created by %d clients at once; from the first creation to the last binding", n, r.small(100), creators)
	r.add(figure{what: fmt.Sprintf("%d notebooks created at once, all bound", n), values: []float64{used.wall.Seconds()}, unit: "s", aim: 30, wall: true, busy: used.busy, how: how})
	r.add(figure{what: "CPU of berth a notebook", values: []float64{1000 * used.process.Seconds() / float64(n)}, unit: "ms", how: "the same"})
	return nil
}

// notebooksAtRest compares the memory with many notebooks with that of as many
// StatefulSets and Services made by hand, after they were made and after a restart,
// which is free of what making them has left, and counts the writes while nothing
// happens.
func notebooksAtRest(ctx context.Context, r *report, dir string) error {
	n := r.small(1000)
	var of [2]rested
	for i, fill := range []func(context.Context, *notebooks, int) error{
		func(ctx context.Context, c *notebooks, n int) error { return c.byHand(ctx, "hand", n) },
		func(ctx context.Context, c *notebooks, n int) error { return c.create(ctx, "rest", n, 1) },
	} {
		var err error
		if of[i], err = restingWith(ctx, r, fmt.Sprintf("%s-%d", dir, i), n, fill); err != nil {
			return err
		}
	}
	how := fmt.Sprintf("%d of one GPU each, all running, on %d nodes of 8; resident memory of the process", n, r.small(150))
	for i, when := range []string{"a minute after they were made", "a minute after a restart"} {
		hand, notebooks := of[0].mb[i], of[1].mb[i]
		r.add(figure{what: "memory beside StatefulSets and Services made by hand, " + when, values: []float64{hand}, unit: "MB", how: how})
		r.add(figure{what: "memory beside notebooks, " + when, values: []float64{notebooks}, unit: "MB", how: "the same"})
		r.add(figure{what: "what the notebooks add, " + when, values: []float64{notebooks - hand}, unit: "MB", aim: 80, how: "from the two above"})
	}
	writes := of[1].writes
	sum := 0.0
	var by []string
	for key, v := range writes {
		sum += v
		by = append(by, fmt.Sprintf("%s %.0f", key, v))
	}
	slices.Sort(by)
	f := figure{
		what: fmt.Sprintf("writes in a minute beside %d notebooks at rest", n), values: []float64{sum}, unit: "writes", aim: 0.5,
		how: "of notebooks, StatefulSets, Services, pods and events, by the API server's own count of requests",
	}
	if len(by) > 0 {
		f.how += ": " + strings.Join(by, ", ")
	}
	r.add(f)
	return nil
}

// rested is what a control plane with many objects is like at rest.
type rested struct {
	mb     [2]float64         // resident memory, after they were made and after a restart
	writes map[string]float64 // in a minute, by resource and verb
}

// restingWith starts a control plane, has made so much of something, waits until
// all of its pods run, and measures at rest; then again after a restart.
func restingWith(ctx context.Context, r *report, dir string, n int, fill func(context.Context, *notebooks, int) error) (out rested, err error) {
	fleet := fmt.Sprintf("scale:%d", r.small(150))
	t, err := begin(dir, ours, fleet, false)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	if err := t.made(ctx, n, fill); err != nil {
		return out, err
	}
	if out.mb[0], out.writes, err = t.minute(ctx); err != nil {
		return out, err
	}
	if _, err := t.down(false); err != nil {
		return out, err
	}
	if t.plane, err = up(dir, fleet, "--scheduler", ours); err != nil {
		return out, err
	}
	if t.client, err = connect(t.Kubeconfig); err != nil {
		return out, err
	}
	out.mb[1], _, err = t.minute(ctx)
	return out, err
}

// made has n of something made, and waits until all of their pods run.
func (t *trial) made(ctx context.Context, n int, fill func(context.Context, *notebooks, int) error) error {
	seen, err := watchBindings(ctx, t.client)
	if err != nil {
		return err
	}
	defer seen.stop()
	notebooks, err := connectNotebooks(t.Kubeconfig)
	if err != nil {
		return err
	}
	if err := fill(ctx, notebooks, n); err != nil {
		return err
	}
	_, err = seen.awaitRunning(ctx, n)
	return err
}

// minute waits until things are quiet and gives the writes in the minute after that,
// and the memory in its second half: the mean of samples, since it goes up and down
// with the collector.
func (t *trial) minute(ctx context.Context) (mb float64, writes map[string]float64, err error) {
	if err := t.quiet(ctx); err != nil {
		return 0, nil, err
	}
	before, err := t.writes(ctx)
	if err != nil {
		return 0, nil, err
	}
	const half, samples = 30 * time.Second, 6
	if err := pause(ctx, half); err != nil {
		return 0, nil, err
	}
	for range samples {
		if err := pause(ctx, half/samples); err != nil {
			return 0, nil, err
		}
		now, err := memory(t.PID)
		if err != nil {
			return 0, nil, err
		}
		mb += now / samples
	}
	if writes, err = t.writes(ctx); err != nil {
		return 0, nil, err
	}
	for key, v := range before {
		if writes[key] -= v; writes[key] == 0 {
			delete(writes, key)
		}
	}
	return mb, writes, nil
}

// stop stops a notebook as Kubeflow's own programs do.
func (c *notebooks) stop(ctx context.Context, name string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotationStopped, time.Now().UTC().Format(time.RFC3339))
	if _, err := c.of.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}
