package queue_test

import (
	"fmt"
	"testing"
	"time"

	"berth.dev/berth/api/v1alpha1"
)

// TestManyStatusesThatChangeAreWrittenLittleByLittle has 300 queues under one get a pod each at once: 50
// statuses are written at once and 10 a second later, changes of a specification without delay, what waits
// before numbers that changed at the same time, and at last all that is so.
func TestManyStatusesThatChangeAreWrittenLittleByLittle(t *testing.T) {
	const queues, burst, rate = 300, 50, 10
	all := []*v1alpha1.Queue{queueOf("org", "", "400")}
	for k := range queues {
		all = append(all, queueOf(fmt.Sprint("q", k), "org", "1"))
	}
	s := newStage(t, all...)
	s.pass(time.Second)
	if s.writes != queues+1 {
		t.Fatalf("%d statuses of new Queues were written, want all %d", s.writes, queues+1)
	}
	for k := range queues {
		s.pod(fmt.Sprint("q", k), fmt.Sprint("p", k), "node-1")
	}
	s.pod("q299", "waits", "")
	written := func(d time.Duration) (n int, wait time.Duration) {
		before := s.writes
		wait = s.pass(d)
		return s.writes - before, wait
	}
	if n, wait := written(time.Minute); n != burst || wait > time.Second {
		t.Errorf("%d statuses were written at once, and the next pass is after %s; want %d, and a second or less", n, wait, burst)
	}
	if got := [2]int32{s.status("org").Waiting, s.status("q299").Waiting}; got != [2]int32{1, 1} {
		t.Errorf("org and q299 show %v that wait, want 1 each", got)
	}
	if n, _ := written(time.Second); n != rate {
		t.Errorf("%d statuses were written in the next second, want %d", n, rate)
	}
	s.change("q250", func(q *v1alpha1.QueueSpec) { q.Stop = v1alpha1.StopHold })
	s.pass(0)
	if got := s.status("q250").ObservedGeneration; got != 2 {
		t.Errorf("the status of a Queue that was changed is of generation %d, want 2", got)
	}
	for range (queues+1-burst-rate)/rate + 1 {
		s.pass(time.Second)
	}
	for k := range queues {
		if used := s.status(fmt.Sprint("q", k)).Used; used != "1" {
			t.Errorf("queue q%d shows %s used, want 1", k, used)
		}
	}
	if n, wait := written(time.Second); n != 0 || wait != 0 && wait < time.Minute {
		t.Errorf("%d statuses were written after all, and the next pass is after %s", n, wait)
	}
}

// TestFewerStatusesAreWrittenWhileAWriteTakesLonger has 300 queues get a pod each at once while the API server is
// busy: once that shows, fewer are written than the pace allows, and as many again when it is quick.
func TestFewerStatusesAreWrittenWhileAWriteTakesLonger(t *testing.T) {
	const queues, burst = 300, 50
	var all []*v1alpha1.Queue
	for k := range queues {
		all = append(all, queueOf(fmt.Sprint("q", k), "", "1"))
	}
	s := newStage(t, all...)
	s.takes = 5 * time.Millisecond
	s.pass(time.Second)
	for k := range queues {
		s.pod(fmt.Sprint("q", k), fmt.Sprint("p", k), "node-1")
	}
	for _, c := range []struct {
		name  string
		takes time.Duration
		least int
		most  int
	}{
		{"a burst, as it does not show yet", 100 * time.Millisecond, burst, burst},
		{"five seconds later", 100 * time.Millisecond, 5, burst / 2},
		{"when it is quick again, which the first writes show", 5 * time.Millisecond, 5, burst},
		{"five seconds after that", 5 * time.Millisecond, 10, burst},
		{"and after ten", 5 * time.Millisecond, burst, burst},
	} {
		before := s.writes
		s.takes = c.takes
		s.pass(5*time.Second - s.now.Sub(s.passed))
		if n := s.writes - before; n < c.least || n > c.most {
			t.Errorf("%s: %d statuses were written, want %d to %d", c.name, n, c.least, c.most)
		}
	}
}
