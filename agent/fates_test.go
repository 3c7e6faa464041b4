package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/agent/exporter"
)

// The metrics fail again and again, as with a port that another process has. Nothing
// else ends, each reason is told of once, and they are served as soon as they can be.
func TestAPartWithAFateOfItsOwnEndsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		g := newGroup(ctx)
		var log bytes.Buffer
		var told []string
		tries, served, plugin := 0, false, true
		g.run(func(ctx context.Context) error {
			<-ctx.Done()
			plugin = false
			return nil
		})
		g.again(slog.New(slog.NewTextHandler(&log, nil)), "not served", func(err error) { told = append(told, err.Error()) }, func(ctx context.Context) error {
			if tries++; tries <= 5 {
				return errors.New("the port is taken")
			}
			served = true
			<-ctx.Done()
			return nil
		})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !served || tries != 6 || !plugin || len(told) != 1 || strings.Count(log.String(), "the port is taken") != 1 {
			t.Errorf("served %v after %d tries, the other part runs %v, told %q, log\n%s", served, tries, plugin, told, &log)
		}
		stop()
		if err := g.wait(); err != nil || plugin {
			t.Errorf("the group ended with %v, the other part runs %v", err, plugin)
		}
	})
}

// The metrics file comes, turns wrong, right, and goes: what is served follows it
// where it can, and each mistake is logged once.
func TestTheMetricsFileIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.csv")
	log := &syncBuffer{}
	a := &agent{o: Options{MetricsFile: path, Log: slog.New(slog.NewTextHandler(log, nil))}}
	ctx, stop := context.WithCancel(t.Context())
	g := newGroup(ctx)
	type state struct{ names, faults string }
	states := make(chan state, 100)
	a.followMetricsFile(g, func(f exporter.Fields, faults []exporter.Fault) {
		s := state{names: strings.Join(f.Names(), " ")}
		for _, fault := range faults {
			s.faults += fault.Reason + " "
		}
		states <- s
	})
	all := strings.Join(new(exporter.Fields).Names(), " ")
	until := func(want state) {
		t.Helper()
		late := time.After(30 * time.Second)
		for {
			select {
			case got := <-states:
				if got == want {
					return
				}
			case <-late:
				t.Fatalf("never %+v", want)
			}
		}
	}
	write := func(text string) {
		t.Helper()
		next := path + ".new" // and turned, as the kubelet does
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
	until(state{all, "unread "})
	write("DCGM_FI_DEV_GPU_TEMP, gauge, x\nDCGM_FI_DEV_SM_CLOK, gauge, x\n")
	until(state{"DCGM_FI_DEV_GPU_TEMP", "unknown "})
	write("DCGM_FI_DEV_SM_CLOCK, gauge, x\n")
	until(state{"DCGM_FI_DEV_SM_CLOCK", ""})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	until(state{"DCGM_FI_DEV_SM_CLOCK", "unread "})
	stop()
	if err := g.wait(); err != nil {
		t.Error(err)
	}
	if said := log.String(); strings.Count(said, path+":2: DCGM_FI_DEV_SM_CLOK is not a field") != 1 || strings.Count(said, "no such file or directory") != 2 {
		t.Errorf("the log says\n%s", said)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
