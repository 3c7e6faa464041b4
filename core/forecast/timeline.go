package forecast

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
)

// Timeline is a queue at one moment of virtual time. It has no clock: Arrive, Step, Fail and Return move its time on. Equal calls
// give equal results.
type Timeline struct {
	// Started, if not nil, receives each job when it starts, and Ended when it ends or is lost with its node.
	Started func(j *Job)
	Ended   func(j *Job, lost bool)
	// Promised, if not nil, receives the first time at which a job that gets a reservation is expected to start.
	Promised func(j *Job, at time.Duration)

	rules    Rules
	quota    Quota // nil: all have quota
	times    *queue.RunTimes
	learns   bool
	index    *placement.Index
	after    *cluster.Snapshot // as the index's, for trials
	now      time.Duration
	lines    map[lineKey]*line
	turns    []turn            // of the last pass: see inOrder
	running  running           // by end
	expects  []*run            // by expected end
	on       [][]*run          // by node
	bare     *cluster.Snapshot // with nothing held
	promises []promise         // in the order of turns; those of this pass, while one goes on
	before   []promise         // those before this pass
	promised map[*Job]bool     // those that had a promise
	reserved map[int]bool      // nodes of promises
	classes  []uint32          // of requests, for which there is the class without reserved nodes
	changed  bool              // reservations have ended since the last pass
	waits    int
	serial   int
}

// lineKey is equal for jobs that keep their order.
type lineKey struct {
	template string
	request  cluster.Request
	pods     int
}

// line is jobs of one template, the first to be tried first.
type line struct {
	jobs   []*Job
	state  state
	serial int
	listed bool // it is among the turns of the last pass, and is one of Timeline.lines
}

// state is what is known of the first of a line.
type state uint8

const (
	untried state = iota
	noRoom        // it fits nowhere
	noQuota       // it has no quota
	kept          // it fits only where it would be in the way of a reservation
)

// run is a job that runs.
type run struct {
	*Job
	began, ends time.Duration
	expect      time.Duration // when it is expected to have ended
	placed      []cluster.Placement
	serial      int
}

// New returns a Timeline at time 0 in which nothing runs or waits. s has nothing on it that ends, and is only read; the classes
// of requests are numbered below 2^31. times is what is known of run times, and learns those of jobs that end.
func New(s *cluster.Snapshot, policy placement.Maker, rules Rules, times *queue.RunTimes) *Timeline {
	t := &Timeline{rules: rules, times: times, learns: true, lines: map[lineKey]*line{}, promised: map[*Job]bool{}, reserved: map[int]bool{}}
	t.use(s, policy)
	t.bare = s.Clone()
	t.on = make([][]*run, s.Len())
	return t
}

// use makes the snapshots from s.
func (t *Timeline) use(s *cluster.Snapshot, policy placement.Maker) {
	own := s.Clone()
	t.index, t.after, t.classes = placement.NewIndex(own, policy(placement.Setup{Cluster: own}), nil, nil), s.Clone(), nil
	t.know(0)
}

// Now is the time.
func (t *Timeline) Now() time.Duration { return t.now }

// Waiting is how many jobs wait, and Running how many run.
func (t *Timeline) Waiting() int { return t.waits }

// Running is how many jobs run.
func (t *Timeline) Running() int { return len(t.running) }

// Next is when something happens next: a job ends, or a reservation was to begin by then. ok is false if nothing does.
func (t *Timeline) Next() (at time.Duration, ok bool) {
	if len(t.running) > 0 {
		at, ok = t.running[0].ends, true
	}
	for i := range t.promises {
		if p := &t.promises[i]; p.at > t.now && p.at != never && (!ok || p.at+1 < at) {
			at, ok = p.at+1, true
		}
	}
	return at, ok
}

// Arrive lets a job come at its time, which is not before Now, and starts it if it is its turn and fits. Jobs that end before
// have to have ended: see Step.
func (t *Timeline) Arrive(j *Job) error {
	t.now = max(t.now, j.At)
	t.index.Arrive(&j.Request)
	l := t.enter(j)
	if len(l.jobs) > 1 {
		return nil
	}
	if err := t.pass(nil, l); err != nil {
		return err
	}
	if l.state == noRoom {
		t.index.Refuse(&j.Request)
	}
	return nil
}

// enter puts a job into its line, behind those that came before it.
func (t *Timeline) enter(j *Job) *line {
	t.know(j.Request.Class)
	key := lineKey{j.Template.Name, j.Request, j.Pods}
	l := t.lines[key]
	if l == nil {
		t.serial++
		l = &line{serial: t.serial}
		t.lines[key] = l
	}
	at, _ := slices.BinarySearchFunc(l.jobs, j, func(a, b *Job) int {
		if a.At <= b.At {
			return -1
		}
		return 1
	})
	if l.jobs = slices.Insert(l.jobs, at, j); at == 0 {
		l.state = untried
	}
	t.waits++
	return l
}

// Step lets happen what happens next, and starts those that have room then.
func (t *Timeline) Step() error {
	at, _ := t.Next()
	if len(t.running) == 0 || at < t.running[0].ends {
		t.now = at // a reservation that was not taken is made again
		return t.pass(nil, nil)
	}
	r := t.running[0]
	t.now = max(t.now, r.ends)
	if t.learns {
		t.times.Ended(r.Template, r.ends-r.began)
	}
	freed, err := t.end(r)
	if err != nil {
		return err
	}
	if t.Ended != nil {
		t.Ended(r.Job, false)
	}
	return t.pass(freed, nil)
}

// end takes what a job has back, and returns its nodes.
func (t *Timeline) end(r *run) (freed []int, err error) {
	if t.quota != nil {
		t.quota.Ends(r.Job)
	}
	heap.Remove(&t.running, r.serial)
	t.expects = slices.DeleteFunc(t.expects, func(o *run) bool { return o == r })
	for i := range r.placed {
		p := &r.placed[i]
		if err := t.index.Snapshot().Release(p); err != nil {
			return nil, fmt.Errorf("the end of %s: %w", r.Name, err)
		}
		if err := t.after.Release(p); err != nil {
			return nil, fmt.Errorf("the end of %s: %w", r.Name, err)
		}
		if !slices.Contains(freed, p.Node) {
			freed = append(freed, p.Node)
			t.on[p.Node] = slices.DeleteFunc(t.on[p.Node], func(o *run) bool { return o == r })
		}
	}
	return freed, nil
}

// Fail takes a node away at a time which is not before Now: what runs there waits again in its old place, and starts
// from its beginning.
func (t *Timeline) Fail(node int, at time.Duration) error {
	t.now = max(t.now, at)
	t.healthy(node, false)
	for _, r := range slices.Clone(t.on[node]) {
		if _, err := t.end(r); err != nil {
			return err
		}
		t.enter(r.Job)
		if t.Ended != nil {
			t.Ended(r.Job, true)
		}
	}
	t.promises = nil
	t.unreserve()
	t.changed = true
	return t.pass(nil, nil)
}

// Return brings a node back.
func (t *Timeline) Return(node int, at time.Duration) error {
	t.now = max(t.now, at)
	t.healthy(node, true)
	return t.pass([]int{node}, nil)
}

func (t *Timeline) healthy(node int, healthy bool) {
	for _, s := range []*cluster.Snapshot{t.index.Snapshot(), t.after} {
		for j := range s.GPUs(node) {
			s.SetHealthy(node, j, healthy)
		}
	}
}

// running is a heap of jobs that run, the first to end first.
type running []*run

func (r running) Len() int { return len(r) }
func (r running) Less(i, j int) bool {
	return r[i].ends < r[j].ends || r[i].ends == r[j].ends && r[i].Name < r[j].Name
}

func (r running) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].serial, r[j].serial = i, j
}

// Push implements heap.Interface.
func (r *running) Push(x any) {
	x.(*run).serial = len(*r)
	*r = append(*r, x.(*run))
}

// Pop implements heap.Interface.
func (r *running) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}
