package sim

import (
	"cmp"
	"fmt"
	"math/rand"
	"slices"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
)

// Queue is a protocol in which nothing fails: each job waits until it starts, and the run goes on until the last has
// ended. Days of a trace are drawn at random, and laid over each other until they ask for Load times the cluster. What
// comes in the first days, while the cluster fills and run times are learnt, is not measured.
//
// With Load above 1 the queue grows as long as jobs come, so waits depend on how long that is. Compare rules with each
// other in one run, and not with the waits of other runs.
type Queue struct {
	Cluster *cluster.Snapshot // empty; each run works on a clone
	Pods    []Pod             // those without GPUs, times, or a node that they fit are left out
	Load    float64           // such as 1.0 or 1.3; above 0
	Rules   forecast.Rules
	Policy  placement.Maker
	Warm    time.Duration // before what is measured; 0 is 7 days
	Span    time.Duration // in which measured jobs come; 0 is 14 days
	Longest time.Duration // run time at which jobs are cut; 0 is 7 days
	// Failures is how often each node fails in 30 days. It is away for an hour, and its jobs start again from the beginning.
	Failures float64
	// Estimates is of how many jobs that wait the start is estimated when they come, and again while they wait; 0 is of none.
	Estimates int
	// Step, if not nil, is called after every hundredth arrival. Where it says stop, the run ends and is Partial.
	Step func(arrived, total int) (stop bool)
}

// QueueRun is the result of one run. Times are in seconds.
type QueueRun struct {
	Seed    int64
	Jobs    int // that were measured
	Partial bool

	MeanWait, MedianWait float64
	Waits                [WaitPercents]float64 // that so many percent of the jobs did not exceed, up to 95
	LargeJobs            int                   // with eight GPUs or more
	LargeWait            float64               // their mean
	// A slowdown is the time from coming to ending over the run time, or over ten minutes if that is longer.
	Slowdown99, MostSlowdown float64
	UsePercent               float64 // of all GPUs, while measured jobs came
	Done                     float64 // when the last job had ended
	// Fairness is Jain's index of the mean slowdowns of the teams: 1 if all are equal, 1/n if one of n has it all.
	// A trace without users has eight teams, by a hash of the template.
	Fairness float64

	// Promises are jobs that were told a start by a reservation: the one by which 97 of 100 earlier such jobs had started.
	// Late are those that started over ten minutes later.
	Promises, Late int
	Lost           int // times that a job was lost with its node
	LostGPUHours   float64
	// Starts are the errors of starts that were estimated when jobs came, and Later of those that were estimated again while they
	// waited: by JobSize.
	Starts, Later [JobSizes]StartErrors
}

// WaitPercents is how many percentages QueueRun.Waits has, from 0.
const WaitPercents = 96

// Run runs the protocol with one seed: equal seeds give equal runs, and equal jobs whatever the rules are.
func (q Queue) Run(seed int64) (QueueRun, error) {
	q.Warm, q.Span, q.Longest = cmp.Or(q.Warm, 7*day), cmp.Or(q.Span, 14*day), cmp.Or(q.Longest, 7*day)
	switch {
	case !(q.Load > 0 && q.Load <= 100):
		return QueueRun{}, fmt.Errorf("load %v: it must be above 0 and at most 100 times the cluster", q.Load)
	case !(q.Failures >= 0 && q.Failures <= 1000):
		return QueueRun{}, fmt.Errorf("%v failures: there must be from 0 to 1000 of each node in 30 days", q.Failures)
	case q.Cluster.TotalGPUs() == 0:
		return QueueRun{}, fmt.Errorf("the cluster has no GPUs: there is nothing to wait for")
	}
	rng := rand.New(rand.NewSource(seed))
	jobs, err := q.jobs(rng)
	if err != nil {
		return QueueRun{}, err
	}
	times := queue.NewRunTimes()
	r := &queueRun{
		Queue: q, jobs: jobs, times: times, line: forecast.New(q.Cluster, q.Policy, q.Rules, times),
		failures: q.failures(rng), promised: map[string]promised{}, kept: forecast.NewAccuracy(), estimates: newEstimates(&q, len(jobs)),
		out: QueueRun{Seed: seed},
	}
	r.line.Started, r.line.Ended = r.started, r.ended
	r.line.Promised = r.promise
	if err := r.run(); err != nil {
		return QueueRun{}, err
	}
	r.sum()
	return r.out, nil
}

// failure is a node that fails, or comes back.
type failure struct {
	at   time.Duration
	node int
	back bool
}

// failures draws when nodes fail.
func (q *Queue) failures(rng *rand.Rand) []failure {
	var out []failure
	if q.Failures == 0 {
		return nil
	}
	mean := float64(30*day) / q.Failures
	for node := range q.Cluster.Len() {
		for at := time.Duration(rng.ExpFloat64() * mean); at < q.Warm+q.Span; at += time.Hour + time.Duration(rng.ExpFloat64()*mean) {
			out = append(out, failure{at, node, false}, failure{at + time.Hour, node, true})
		}
	}
	slices.SortStableFunc(out, func(a, b failure) int { return cmp.Compare(a.at, b.at) })
	return out
}
