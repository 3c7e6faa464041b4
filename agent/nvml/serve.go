package nvml

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// retry is how long after an attempt to reach the driver the next one follows.
const retry = 5 * time.Second

// Serve is the child's side: it reads requests from in and writes answers,
// events and changes to out until in ends, which is how the parent ends it; the
// error is nil then. Another error is ErrReload or one of in or out, after which
// the process has to end.
//
// It waits for the call that is being answered, at most a second, and not for a
// wait for events, which ends within 5 s. The goroutine that reads in ends when
// in does.
func Serve(ctx context.Context, in io.Reader, out io.Writer, lib Library, log *slog.Logger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{out: out, driver: NewDriver(lib), log: log, cancel: cancel, again: make(chan struct{}, 1)}
	s.send(answer{Hello: protocol})

	requests := make(chan request)
	go s.read(ctx, in, requests)
	worked, watched := make(chan struct{}), make(chan struct{})
	go func() { defer close(worked); s.work(ctx, requests) }()
	go func() { defer close(watched); s.watch(ctx) }()
	go s.changes(ctx, lib.Changes())

	<-ctx.Done()
	late := time.NewTimer(time.Second)
	defer late.Stop()
	select {
	case <-worked:
	case <-late.C:
	}
	select {
	case <-watched:
		if err := s.driver.Close(); err != nil {
			log.Warn("unloading the driver", "error", err)
		}
	default: // the end of the process lets go of it
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// server is one Serve.
type server struct {
	driver *Driver
	log    *slog.Logger
	cancel context.CancelCauseFunc
	again  chan struct{} // the driver may be there now

	mu  sync.Mutex
	out io.Writer
}

// send writes a line.
func (s *server) send(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := writeLine(s.out, a); err != nil {
		s.cancel(fmt.Errorf("write to the parent: %w", err))
	}
}

func (s *server) event(e Event) { s.send(answer{Event: &e}) }

func (s *server) changed() { s.send(answer{Changed: true}) }

// read passes requests on until the end of in.
func (s *server) read(ctx context.Context, in io.Reader, to chan<- request) {
	r := newLines(in)
	for {
		var q request
		if err := r.next(&q); err != nil {
			s.cancel(fmt.Errorf("read from the parent: %w", err)) // io.EOF is its end
			return
		}
		select {
		case to <- q:
		case <-ctx.Done():
			return
		}
	}
}

// work answers one request after the other.
func (s *server) work(ctx context.Context, requests <-chan request) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-requests:
			a := answer{ID: q.ID}
			drift, err := s.do(q, &a)
			if err != nil {
				a.fail(err)
			}
			s.send(a)
			s.driver.tell(s.event)
			if drift {
				s.changed()
			}
			if err := s.driver.ended(); err != nil {
				s.cancel(err)
				return
			}
		}
	}
}

// do carries a request out. changed says that a new snapshot is due.
func (s *server) do(q request, a *answer) (changed bool, err error) {
	d := s.driver
	switch q.Call {
	case callSnapshot:
		snapshot := d.Snapshot()
		a.Snapshot = &snapshot
	case callSamples:
		var samples []Sample
		samples, changed, err = d.Samples(time.Now(), q.More...)
		a.Samples = pack(samples)
	case callMIGMode:
		a.Reset, err = d.SetMIGMode(q.UUID, q.On)
		changed = true
	case callPartitionMIG:
		err = d.PartitionMIG(q.UUID, q.Profiles)
		changed = true
	case callMemoryLimit:
		err = d.SetMemoryLimit(q.UUID, q.Cgroup, q.Bytes)
	case callExclusive:
		err = d.SetExclusive(q.UUID, q.On)
	case callProbe:
		changed, err = d.probe(q.UUID)
	case callCDI:
		a.CDI, err = d.CDI()
	default:
		err = fmt.Errorf("no call %q in protocol %d", q.Call, protocol)
	}
	return changed, err
}

// watch passes events on. Where there is no driver, it looks for one now and
// then: nothing tells of its coming.
func (s *server) watch(ctx context.Context) {
	for failed := false; ctx.Err() == nil; {
		err := s.driver.Open()
		if err == nil {
			if failed {
				s.changed()
			}
			err = s.driver.Watch(ctx, Listener{Event: s.event, Changed: s.changed, Stuck: func(err error) { s.cancel(err) }})
		} else if !failed {
			s.log.Warn("cannot reach the driver; retrying periodically", "error", err, "every", retry)
		}
		if errors.Is(err, ErrReload) {
			s.cancel(err)
			return
		}
		if failed = err != nil; !failed {
			continue
		}
		timer := time.NewTimer(retry)
		select {
		case <-ctx.Done():
		case <-s.again:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// changes passes on what the library itself notices.
func (s *server) changes(ctx context.Context, from <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-from:
			s.changed()
			select {
			case s.again <- struct{}{}:
			default:
			}
		}
	}
}
