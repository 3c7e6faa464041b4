package quota_test

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/test/soak"
)

// teams is two teams of equal weight that share GPUs in virtual time. Each always has work
// that waits; the first has the GPUs alone for a week.
type teams struct {
	chance     *rand.Rand
	b          *quota.Book
	now        time.Time
	ends       ends
	run        map[string]*job
	serial     int
	longest    time.Duration // of a run
	checkpoint time.Duration
	held       [2]float64 // GPU-seconds of each team in the second week
	lost       float64    // GPU-seconds of it that are done again
	total      int64
}

// job is one run of a workload.
type job struct {
	*quota.Workload
	team  int
	gpus  int64
	start time.Time
	left  time.Duration
}

// ending is when a job ends, unless it is evicted.
type ending struct {
	at  time.Time
	job *job
	run time.Time // its start: an evicted job has another
}

type ends []ending

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

var names = [2]string{"red", "blue"}

// ask makes work for a team: 1, 2, 4 or 8 GPUs, for a time whose logarithm is normal.
func (s *teams) ask(team int) *job {
	s.serial++
	id := fmt.Sprintf("j%d", s.serial)
	gpus := int64(1) << s.chance.IntN(4)
	j := &job{Workload: ask(id, names[team], "", gpus), team: team, gpus: gpus}
	j.Ticket.UID, j.Ticket.Created, j.Since = id, s.now, s.now
	length := time.Duration(float64(time.Hour) * math.Exp(1.5*s.chance.NormFloat64()))
	j.left = min(s.longest, length)
	s.run[id] = j
	return j
}

// start has a job hold its GPUs, and its team ask for one more.
func (s *teams) start(j *job) {
	j.start = s.now
	s.b.Leave(j.ID)
	s.b.Hold(&quota.Holder{ID: j.ID, Workload: j.ID, Queue: j.Queue, Pieces: j.Pods[0].Pieces, Start: s.now, Checkpoint: s.checkpoint, Least: 1})
	heap.Push(&s.ends, ending{s.now.Add(j.left), j, j.start})
}

// stop ends a job at this moment, and reports what it has done.
func (s *teams) stop(j *job, week time.Time) {
	s.b.Gone(j.ID)
	from := j.start
	if from.Before(week) {
		from = week
	}
	if s.now.After(from) {
		s.held[j.team] += float64(j.gpus) * s.now.Sub(from).Seconds()
	}
}

// fill starts all that may start. A claim to nominal quota takes it back.
func (s *teams) fill(week time.Time, team int) {
	for {
		for _, w := range s.b.Next(time.Time{}) {
			s.start(s.run[w.ID])
		}
		if s.b.Count(names[team]) >= 8 {
			return
		}
		j := s.ask(team)
		if v := s.b.Try(j.Workload); v.Cause == quota.None {
			s.start(j)
			continue
		}
		c := &quota.Claim{Workload: j.Workload, Now: s.now}
		victims, _, ok := s.b.Victims(c, nil)
		if !ok {
			s.b.Wait(j.Workload)
			continue
		}
		for _, id := range victims {
			v := s.run[id]
			s.stop(v, week)
			done := s.now.Sub(v.start)
			saved := done
			if s.checkpoint > 0 {
				saved = done.Truncate(s.checkpoint)
			} else {
				saved = 0
			}
			s.lost += float64(v.gpus) * (done - saved).Seconds()
			v.left -= saved
			v.start = time.Time{}
			s.b.Wait(v.Workload)
		}
		s.start(j)
	}
}

// play runs for two weeks, and returns the first team's share of the GPU time of the second, and
// the part of that which was lost.
func (s *teams) play() (share, lost float64) {
	week := epoch.Add(7 * 24 * time.Hour)
	end := week.Add(7 * 24 * time.Hour)
	s.now = epoch
	s.fill(week, 0)
	second := false
	for len(s.ends) > 0 {
		next := heap.Pop(&s.ends).(ending)
		if !second && next.at.After(week) {
			heap.Push(&s.ends, next)
			s.now, second = week, true
			s.fill(week, 1)
			continue
		}
		if next.at.After(end) {
			break
		}
		if s.now = next.at; !next.job.start.Equal(next.run) {
			continue
		}
		s.stop(next.job, week)
		next.job.start = time.Time{}
		s.fill(week, 0)
		if second {
			s.fill(week, 1)
		}
	}
	s.now = end
	for _, j := range s.run {
		if !j.start.IsZero() {
			s.stop(j, week)
		}
	}
	sum := s.held[0] + s.held[1]
	return s.held[0] / sum, s.lost / (float64(s.total) * 7 * 24 * 3600)
}

func TestSharesOfTwoTeams(t *testing.T) {
	const gpusInAll = 64
	tests := map[string]struct {
		nominal    int64 // of each
		longest    time.Duration
		checkpoint time.Duration
		within     float64
		lost       float64
	}{
		"what is over nominal quota is shared as runs end, where they are short": {0, 24 * time.Hour, 0, 0.05, 0},
		"and nearly so where they are long":                                      {0, 7 * 24 * time.Hour, 0, 0.10, 0},
		"nominal quota is taken back at once, and little is lost":                {gpusInAll / 2, 24 * time.Hour, 30 * time.Minute, 0.05, 0.01},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(soak.Pick(3, 20)) {
				root := quota.Spec{Name: "org", Quotas: []quota.Quota{gpus(gpusInAll)}}
				specs := []quota.Spec{root}
				for _, name := range names {
					specs = append(specs, quota.Spec{Name: name, Parent: "org", Quotas: []quota.Quota{gpus(tt.nominal)}, MinRunTime: 10 * time.Minute})
				}
				s := &teams{
					chance: rand.New(rand.NewPCG(seed, 4)), b: quota.NewBook(quota.NewTree(specs)), run: map[string]*job{},
					longest: tt.longest, checkpoint: tt.checkpoint, total: gpusInAll,
				}
				share, lost := s.play()
				t.Logf("seed %d: share %.3f, lost %.4f of the GPU time", seed, share, lost)
				if math.Abs(share-0.5) > tt.within {
					t.Errorf("seed %d: the first team has %.3f of the GPU time", seed, share)
				}
				if lost > tt.lost {
					t.Errorf("seed %d: %.4f of the GPU time is lost", seed, lost)
				}
			}
		})
	}
}
