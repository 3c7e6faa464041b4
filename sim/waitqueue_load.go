package sim

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand"
	"slices"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
)

// day is the length of what is drawn of a trace.
const day = 24 * time.Hour

// teams is how many teams the templates of a trace without users are divided among.
const teams = 8

// Every returns every n-th of the nodes that have GPUs, the smallest first: of each size, as many in
// proportion. 1 is all.
func Every(n int, nodes []cluster.Spec) []cluster.Spec {
	with := slices.DeleteFunc(slices.Clone(nodes), func(s cluster.Spec) bool { return len(s.GPUs) == 0 })
	slices.SortStableFunc(with, func(a, b cluster.Spec) int {
		return cmp.Or(cmp.Compare(len(a.GPUs), len(b.GPUs)), cmp.Compare(a.CPUMilli, b.CPUMilli), cmp.Compare(a.GPUs[0].Product, b.GPUs[0].Product))
	})
	var out []cluster.Spec
	for i := n / 2; i < len(with); i += n {
		out = append(out, with[i])
	}
	return out
}

// templateOf is what is alike between pods of a trace: what they ask for, their class of service, and their user if the
// trace has one.
func templateOf(p *Pod) queue.Template {
	t := queue.Template{
		Name:  fmt.Sprintf("%s/%d/%d/%d/%d/%s", p.User, p.CPUMilli, p.MemoryBytes, p.GPUs, p.MilliGPU, p.QoS),
		Class: fmt.Sprintf("%d/%d", p.GPUs, p.MilliGPU/cluster.Whole),
	}
	if p.Pods > 1 {
		gang := fmt.Sprintf("x%d", p.Pods)
		t.Name, t.Class = t.Name+gang, t.Class+gang
	}
	return t
}

// teamOf is the team of a template, from 0.
func teamOf(t queue.Template) int {
	h := fnv.New32a()
	h.Write([]byte(t.Name))
	return int(h.Sum32() % teams)
}

// jobs draws the jobs that come: whole days of the trace, in any order and again and again, several at once, until they
// ask for the load; then some at random are left out, until they ask for no more.
func (q *Queue) jobs(rng *rand.Rand) ([]*forecast.Job, error) {
	days, err := q.days()
	if err != nil {
		return nil, err
	}
	span := q.Warm + q.Span
	target := q.Load * float64(q.Cluster.TotalGPUs()) * span.Seconds()
	var all []*forecast.Job
	asked := 0.0
	for asked < target {
		for from := time.Duration(0); from < span; from += day {
			for _, p := range days[rng.Intn(len(days))] {
				j := q.job(p)
				j.At = from + time.Duration(math.Mod(p.Arrival, day.Seconds())*float64(time.Second))
				asked += j.GPUs * j.Run.Seconds()
				all = append(all, j)
			}
		}
		if len(all) > mostArrivals {
			return nil, fmt.Errorf("load %v: it would take more than %d jobs; use fewer nodes, or a smaller load", q.Load, mostArrivals)
		}
	}
	keep := target / asked
	all = slices.DeleteFunc(all, func(*forecast.Job) bool { return rng.Float64() >= keep })
	slices.SortStableFunc(all, func(a, b *forecast.Job) int { return cmp.Compare(a.At, b.At) })
	for i, j := range all {
		j.Name = fmt.Sprintf("job-%07d", i)
	}
	return all, nil
}

// days are the pods that ask for GPUs, ran, and fit the cluster with those that start together with them, by the day on which they came. Days with less than a
// tenth of the mean are left out: what came then runs for months and stands for no queue.
func (q *Queue) days() ([][]*Pod, error) {
	byDay := map[int][]*Pod{}
	requests := Requests(q.Cluster, q.Pods)
	count, empty, fits := 0, q.Cluster.Clone(), map[lineOfPods]bool{}
	for i := range q.Pods {
		p := &q.Pods[i]
		if p.GPUs == 0 || !p.HasRun || !p.HasArrival {
			continue
		}
		key := lineOfPods{requests[i], max(p.Pods, 1)}
		if _, known := fits[key]; !known {
			fits[key] = fitTogether(empty, &key.request, key.pods)
		}
		if !fits[key] {
			continue
		}
		count++
		at := int(p.Arrival / day.Seconds())
		byDay[at] = append(byDay[at], p)
	}
	if count == 0 {
		return nil, fmt.Errorf("no pod of the trace asks for GPUs, says when it came and how long it ran, and fits a node: there is nothing to queue")
	}
	var out [][]*Pod
	for _, at := range slices.Sorted(maps.Keys(byDay)) {
		if 10*len(byDay[at])*len(byDay) >= count {
			out = append(out, byDay[at])
		}
	}
	return out, nil
}

// lineOfPods is what the pods of a job ask for, and how many they are.
type lineOfPods struct {
	request cluster.Request
	pods    int
}

// fitTogether reports whether so many pods that ask for the same fit a snapshot at once.
func fitTogether(s *cluster.Snapshot, r *cluster.Request, pods int) bool {
	m := s.Mark()
	defer s.RollBack(m)
	for n := range s.Len() {
		for placement.Fit(s, n, r) == placement.Fits {
			if pods--; pods == 0 {
				return true
			}
			q := s.Resolve(n, r)
			if s.Assume(&cluster.Placement{Node: n, Request: *r, Devices: placement.Take(s, n, &q, placement.LeastOpen, nil)}) != nil {
				break
			}
		}
	}
	return false
}

// job makes a job of a pod and those that start together with it. It comes at 0.
func (q *Queue) job(p *Pod) *forecast.Job {
	r, pods := Requests(q.Cluster, []Pod{*p})[0], max(p.Pods, 1)
	return &forecast.Job{
		Template: templateOf(p), Request: r, Pods: pods, GPUs: float64(pods) * float64(r.TotalMilli()) / cluster.Whole,
		Run: min(time.Duration(p.Run*float64(time.Second)), q.Longest),
	}
}
