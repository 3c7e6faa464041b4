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
	Declared bool          // its pods declare how long they run
	Spread   time.Duration // how much longer each of its pods runs than the one before
	Pods     int
	Least    int // how many must start together; 0 is that they are no gang
	Priority int32
	Within   gang.Level // how far apart a gang may be
	Request  cluster.Request
	// Grace is how long a gang may run with fewer pods than it needs; 0 is gang.DefaultGrace.
	Grace time.Duration
	// Replace is how long after a pod was lost or evicted its controller creates another,
	// with "-r1", "-r2" and so on after the name; 0 is that it has no controller.
	Replace time.Duration
}

// Loss is a pod that is lost while it runs, as if it were deleted.
type Loss struct {
	At  time.Duration
	Pod string // as it was first named; if that one was lost before, another in its place
}

// Jobs is a protocol in which jobs may be gangs. It runs what the scheduler's
// plugins run, in virtual time: gang.Machine decides when a gang is tried, let go,
// tried again, and released, gang.Planner where it goes, queue.Lines which of the pods
// that ask for the same is tried, and queue.Keeper which of them get reservations, where
// preemption.Await finds them.
//
// No pod preempts another, as if all had preemptionPolicy Never. There are no filters of
// others, bindings arrive at once, and a decision takes no time. An evicted pod ends
// after a second.
type Jobs struct {
	Cluster  *cluster.Snapshot // empty; each run works on a clone
	Topology *gang.Topology    // of its nodes; nil: racks and zones are not known
	Jobs     []Job
	Losses   []Loss
	Policy   placement.Maker
	// ReserveAfter is how long one has waited before a place is kept for it; 0 keeps none.
	ReserveAfter time.Duration
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
	r := newJobRun(&j)
	jobs := slices.Clone(j.Jobs)
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.At, b.At) })
	for i := range jobs {
		r.at(epoch.Add(jobs[i].At), arrives, "", func() { r.arrive(&jobs[i]) })
	}
	for _, l := range j.Losses {
		r.at(epoch.Add(l.At), returns, l.Pod, func() { r.loss(l.Pod) })
	}
	for {
		next := r.next()
		if next.what == nothing || next.at.Sub(epoch) > until {
			return r.started, nil
		}
		r.now = next.at
		r.happen(next)
		for timer := next.what <= looks; timer; { // those of one moment come together
			next = r.next()
			if timer = next.what != nothing && next.what <= looks && !next.at.After(r.now); timer {
				r.happen(next)
			}
		}
		if err := r.settle(); err != nil {
			return nil, fmt.Errorf("at %v: %w", r.now.Sub(epoch), err)
		}
	}
}

// happen does what comes next.
func (r *jobRun) happen(next timed) {
	if next.what == alarms {
		r.step(gang.Time{})
		return
	}
	heap.Pop(&r.timed)
	next.do()
}

// epoch is where virtual time starts.
var epoch = time.Unix(0, 0).UTC() //nolint:gochecknoglobals // a constant, but for Go

// happening is what comes next: of equal times, what is listed first.
type happening uint8

const (
	nothing happening = iota
	alarms            // of gangs
	leases            // of reservations
	looks             // at whether those have gone who were waited for
	ends
	returns // of pods from controllers, and losses
	arrives
)

// timed is something that is to be done at a time.
type timed struct {
	at     time.Time
	what   happening
	pod    string // that it is about; "" is several
	serial int
	do     func()
}

// at has something done at a time.
func (r *jobRun) at(at time.Time, what happening, pod string, do func()) {
	r.serial++
	heap.Push(&r.timed, timed{at, what, pod, r.serial, do})
}

// next returns what comes next.
func (r *jobRun) next() timed {
	var out timed
	if len(r.timed) > 0 {
		out = r.timed[0]
	}
	if at := r.wakeAt; !at.IsZero() && (out.what == nothing || !out.at.Before(at)) {
		if at.Before(r.now) {
			at = r.now
		}
		out = timed{at: at, what: alarms}
	}
	return out
}

// times are a heap, the next one first.
type times []timed

func (e times) Len() int { return len(e) }
func (e times) Less(i, j int) bool {
	return cmp.Or(e[i].at.Compare(e[j].at), cmp.Compare(e[i].what, e[j].what), cmp.Compare(e[i].pod, e[j].pod), cmp.Compare(e[i].serial, e[j].serial)) < 0
}
func (e times) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *times) Push(x any) { *e = append(*e, x.(timed)) }

// Pop implements heap.Interface.
func (e *times) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// newJobRun returns a run in which nothing has happened.
func newJobRun(j *Jobs) *jobRun {
	s := j.Cluster.Clone()
	index := placement.NewIndex(s, j.Policy(placement.Setup{Cluster: s}), nil, nil)
	return &jobRun{
		index: index, planner: gang.Planner{Placer: index, Topology: j.Topology},
		gangs: gang.NewMachine(), lines: queue.NewLines(), keeper: queue.NewKeeper[*jobPod](j.ReserveAfter), reserves: j.ReserveAfter > 0,
		pods: map[string]*jobPod{}, ranks: map[string]gang.Rank{}, rooms: map[string]*jobRoom{}, lent: map[string][]lent{}, on: make([][]*jobPod, s.Len()),
	}
}
