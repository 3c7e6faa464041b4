package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
)

// profiler takes CPU profiles of a control plane, one after the other, until it
// is told to finish: how long a run takes is not known before.
type profiler struct {
	client *kubernetes.Clientset
	files  string // path of each, less its number
	finish chan struct{}
	done   sync.WaitGroup
	taken  []string
	err    error
}

// slice is how long one profile is: so long it goes on past the end, when the
// scheduler is at rest. The milliseconds between two are lost.
const slice = 5 * time.Second

// startProfile begins.
func startProfile(ctx context.Context, client *kubernetes.Clientset, files string) *profiler {
	p := &profiler{client: client, files: files, finish: make(chan struct{})}
	p.done.Go(func() {
		for i := 0; p.err == nil; i++ {
			select {
			case <-p.finish:
				return
			default:
				p.err = p.take(ctx, fmt.Sprintf("%s-%d.pprof", p.files, i))
			}
		}
	})
	return p
}

// take takes one.
func (p *profiler) take(ctx context.Context, file string) error {
	raw, err := p.client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").
		Param("seconds", strconv.Itoa(int(slice.Seconds()))).Timeout(slice + time.Minute).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("take a CPU profile: %w", err)
	}
	p.taken = append(p.taken, file)
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, raw, 0o600))
}

// shares ends the profile and says how much CPU each component of the control
// plane used, by the label of its goroutines. Garbage collection on its own
// goroutines belongs to none.
func (p *profiler) shares() (map[string]time.Duration, error) {
	close(p.finish)
	p.done.Wait()
	if p.err != nil {
		return nil, p.err
	}
	return byComponent(p.taken)
}

// result is shares of a time in which the scheduler worked.
func (p *profiler) result() (map[string]time.Duration, error) {
	used, err := p.shares()
	if err == nil && (used["scheduler"] == 0 || used["apiserver"] == 0) {
		err = fmt.Errorf("the CPU profiles have no samples of the scheduler or the API server: %v", used)
	}
	return used, err
}

// tagged finds a label's value and its milliseconds in what pprof prints.
var tagged = regexp.MustCompile(`(?m)^\s*([0-9.]+)ms \(\s*[0-9.]+%\): (\S+)$`)

// byComponent adds up profiles by the label component.
func byComponent(files []string) (map[string]time.Duration, error) {
	args := append([]string{"tool", "pprof", "-tags", "-unit=ms", program()}, files...)
	cmd := exec.Command("go", args...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("read the CPU profiles: %w\n%s", err, stderr.String())
	}
	used := map[string]time.Duration{}
	for _, m := range tagged.FindAllStringSubmatch(out.String(), -1) {
		ms, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return nil, fmt.Errorf("read the CPU profiles: %w", err)
		}
		used[m[2]] += time.Duration(ms * float64(time.Millisecond))
	}
	return used, nil
}
