package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods come and go in waves, so that no more than a wave is there at a time.
const (
	wave      = 2000
	heapFor   = 30 * time.Minute // after which no further wave is begun
	fewPods   = 10_000
	manyPods  = 100_000
	heapNodes = 500
)

// benchHeap runs the scheduler as a process of its own and compares the heap
// that is live in it after few and after many pods were bound and deleted.
func benchHeap(ctx context.Context, r *report, dir string) (err error) {
	t, err := begin(dir, "none", fmt.Sprintf("scale:%d", r.small(heapNodes)), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	s, err := startAlone(dir+"-scheduler.log", "scheduler", "--kubeconfig", t.Kubeconfig, "--scheduler-name", "default-scheduler", "--leader-elect=false")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	seen, err := watchBindings(ctx, t.client)
	if err != nil {
		return err
	}
	defer seen.stop()
	began, done := time.Now(), 0
	run := func(until int) (float64, error) {
		for done < until && time.Since(began) < heapFor {
			n := min(r.small(wave), until-done)
			if err := t.wave(ctx, seen, done, n); err != nil {
				return 0, err
			}
			done += n
		}
		return s.live(ctx)
	}
	few, err := run(r.small(fewPods))
	if err != nil {
		return err
	}
	many, err := run(r.small(manyPods))
	if err != nil {
		return err
	}
	how := fmt.Sprintf("`berth scheduler` beside `berth up --scheduler none`, %d nodes of 8; one-GPU pods in waves of %d; HeapAlloc after a forced collection, no pod there", r.small(heapNodes), r.small(wave))
	r.add(figure{what: fmt.Sprintf("live heap after %d pods bound and deleted", r.small(fewPods)), values: []float64{few}, unit: "MB", how: how})
	r.add(figure{what: fmt.Sprintf("live heap after %d", done), values: []float64{many}, unit: "MB", how: fmt.Sprintf("the same process, %s after its start", time.Since(began).Round(time.Second))})
	f := figure{what: "the latter against the former", values: []float64{many / few}, unit: "times", aim: 1.1, how: "from the two above"}
	if done < r.small(manyPods) {
		f.void = fmt.Sprintf("%d of %d pods after %s", done, r.small(manyPods), heapFor)
	}
	r.add(f)
	return nil
}

// wave creates n pods, waits until they are bound, and deletes them.
func (t *trial) wave(ctx context.Context, seen *bindings, first, n int) error {
	seen.reset()
	pods := gpuPods(fmt.Sprintf("wave-%d", first), n, 1)
	if _, _, err := create(ctx, t.client, pods, creators); err != nil {
		return err
	}
	if _, err := seen.await(ctx, n, time.Minute); err != nil {
		return err
	}
	if err := remove(ctx, t.client, pods); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; {
		list, err := t.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case err != nil:
			return err
		case len(list.Items) == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("pod %s is there a minute after it was deleted", list.Items[0].Name)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// alone is a scheduler, or the controllers, that run as a process of their own.
type alone struct {
	cmd  *exec.Cmd
	log  *os.File
	addr string // of its metrics, health and profiles
}

// startAlone starts `berth WHAT` with further arguments. The caller ends it.
func startAlone(log, what string, more ...string) (*alone, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &alone{addr: l.Addr().String()}
	if err := l.Close(); err != nil {
		return nil, err
	}
	if s.log, err = os.Create(filepath.Clean(log)); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(program(), append([]string{what, "--metrics-addr", "http://" + s.addr}, more...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	return s, nil
}

// end stops it, and shows its log where it had ended with an error.
func (s *alone) end() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	kill := time.AfterFunc(15*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	err := s.cmd.Wait()
	if err != nil {
		said, _ := os.ReadFile(s.log.Name())
		err = fmt.Errorf("berth %s: %w\n%s", s.cmd.Args[1], err, said[max(0, len(said)-2000):])
	}
	return errors.Join(err, s.log.Close())
}

// heapAlloc is where Go's heap profile says how much is live.
var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// live is the heap after a collection in MB (10^6 bytes), the least of three
// looks: what is on its way at one moment is not kept.
func (s *alone) live(ctx context.Context) (float64, error) {
	least := 0.0
	for range 3 {
		if err := pause(ctx, 3*time.Second); err != nil {
			return 0, err
		}
		raw, err := get(ctx, "http://"+s.addr+"/debug/pprof/heap?gc=1&debug=1")
		if err != nil {
			return 0, fmt.Errorf("read the heap profile: %w", err)
		}
		m := heapAlloc.FindSubmatch(raw)
		if m == nil {
			return 0, fmt.Errorf("the heap profile has no HeapAlloc: %q", raw[:min(len(raw), 200)])
		}
		bytes, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return 0, err
		}
		if mb := bytes / 1e6; least == 0 || mb < least {
			least = mb
		}
	}
	return least, nil
}

// get reads an address.
func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, res.Body); err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, res.Status)
	}
	return b.Bytes(), nil
}
