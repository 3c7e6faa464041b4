package sim

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
)

// Job is pods that come at the same time and ask for the same.
type Job struct {
	Name     string        // its pods are Name-0, Name-1 and so on; unique
	At       time.Duration // when they come, since the start
	Run      time.Duration // how long each runs; 0 is until the end
	Spread   time.Duration // how much longer each of its pods runs than the one before
	Pods     int
	Least    int // how many must start together; 0 is that they are no gang
	Priority int32
	Within   gang.Level // how far apart a gang may be
	Request  cluster.Request
}

// Jobs is a protocol in which jobs may be gangs. It runs what the scheduler's
// plugins run, in virtual time: gang.Machine decides when a gang is tried, let go
// and tried again, gang.Planner where it goes, and queue.Lines which of the pods
// that ask for the same is tried.
//
// There are no evictions and no filters of others, bindings arrive at once, and a
// decision takes no time.
type Jobs struct {
	Cluster  *cluster.Snapshot // empty; each run works on a clone
	Topology *gang.Topology    // of its nodes; nil: racks and zones are not known
	Jobs     []Job
	Policy   placement.Maker
}

// Start is a pod that has started.
type Start struct {
	At   time.Duration
	Pod  string
	Node string
}

// Run runs the protocol and returns what has started, in order. It ends when
// nothing more can happen, or at the time until.
func (j Jobs) Run(until time.Duration) ([]Start, error) {
	s := j.Cluster.Clone()
	index := placement.NewIndex(s, j.Policy(placement.Setup{Cluster: s}), nil, nil)
	r := &jobRun{
		index: index, planner: gang.Planner{Placer: index, Topology: j.Topology},
		gangs: gang.NewMachine(), lines: queue.NewLines(), pods: map[string]*jobPod{}, ranks: map[string]gang.Rank{},
	}
	jobs := slices.Clone(j.Jobs)
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.At, b.At) })
	for {
		at, what := r.next(jobs)
		if what == nothing || at > until {
			return r.started, nil
		}
		r.now = epoch.Add(at)
		switch what {
		case ending:
			r.end(heap.Pop(&r.running).(jobEnd).pod)
		case arriving:
			r.arrive(&jobs[0])
			jobs = jobs[1:]
		case alarming:
			r.step(gang.Time{})
		case nothing: // not reached
		}
		if err := r.settle(); err != nil {
			return nil, fmt.Errorf("at %v: %w", at, err)
		}
	}
}

// epoch is where virtual time starts.
var epoch = time.Unix(0, 0).UTC() //nolint:gochecknoglobals // a constant, but for Go

// happening is what comes next.
type happening uint8

const (
	nothing happening = iota
	ending
	arriving
	alarming
)

// next returns what comes next, and when: of equal times what the
// gangs want first, then ends.
func (r *jobRun) next(jobs []Job) (at time.Duration, what happening) {
	earlier := func(t time.Duration, w happening) {
		if what == nothing || t < at {
			at, what = t, w
		}
	}
	if !r.wakeAt.IsZero() {
		earlier(max(r.wakeAt.Sub(epoch), r.now.Sub(epoch)), alarming)
	}
	if len(r.running) > 0 {
		earlier(r.running[0].at.Sub(epoch), ending)
	}
	if len(jobs) > 0 {
		earlier(jobs[0].At, arriving)
	}
	return at, what
}

// jobEnd is when a pod ends.
type jobEnd struct {
	at  time.Time
	pod *jobPod
}

// jobEnds are a heap, the next one first.
type jobEnds []jobEnd

func (e jobEnds) Len() int { return len(e) }
func (e jobEnds) Less(i, j int) bool {
	return cmp.Or(e[i].at.Compare(e[j].at), cmp.Compare(e[i].pod.name, e[j].pod.name)) < 0
}
func (e jobEnds) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *jobEnds) Push(x any) { *e = append(*e, x.(jobEnd)) }

// Pop implements heap.Interface.
func (e *jobEnds) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
