package quota_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/test/soak"
)

func each(gpus int64) []quota.Piece {
	return []quota.Piece{{Devices: gpus, Parts: gpus * whole}}
}

func TestPodsThatAreNeededComeFirst(t *testing.T) {
	for name, c := range map[string]struct {
		sets   []quota.Set
		of     []int // the set of each pod
		need   int
		counts map[int][]int // of each set, by how many pods start
	}{
		"all pods of a set are needed": {[]quota.Set{{Count: 3}}, []int{0, 0, 0}, 3, map[int][]int{3: {3}, 0: {0}}},
		"a set may start with fewer":   {[]quota.Set{{Count: 3, Spare: 2}}, []int{0, 0, 0}, 1, map[int][]int{1: {1}, 2: {2}, 3: {3}}},
		"a set may start with none":    {[]quota.Set{{Count: 1}, {Count: 2, Spare: 2}}, []int{0, 1, 1}, 1, map[int][]int{1: {1, 0}, 2: {1, 1}}},
		"what each of two sets needs comes before what either may do without": {
			[]quota.Set{{Count: 2, Spare: 1}, {Count: 3, Spare: 1}}, []int{0, 1, 1, 0, 1}, 3, map[int][]int{3: {1, 2}, 4: {2, 2}, 5: {2, 3}},
		},
		"a set of no pods asks for nothing": {[]quota.Set{{}, {Count: 1}}, []int{1}, 1, map[int][]int{1: {0, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			if of, need := quota.Order(c.sets); !slices.Equal(of, c.of) || need != c.need {
				t.Errorf("Order(%+v) = %v, %d; want %v, %d", c.sets, of, need, c.of, c.need)
			}
			for n, want := range c.counts {
				if got := quota.Counts(c.sets, n); !slices.Equal(got, want) {
					t.Errorf("Counts(%+v, %d) = %v, want %v", c.sets, n, got, want)
				}
			}
		})
	}
}

func TestTheFirstPodsOfSetsAreNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		counts []int
		need   int
		want   []quota.Set
	}{
		"all":                       {[]int{1, 4}, 5, []quota.Set{{Count: 1}, {Count: 4}}},
		"a part of the last set":    {[]int{1, 4}, 3, []quota.Set{{Count: 1}, {Count: 4, Spare: 2}}},
		"none of the last set":      {[]int{1, 4}, 1, []quota.Set{{Count: 1}, {Count: 4, Spare: 4}}},
		"no more than there are":    {[]int{2}, 5, []quota.Set{{Count: 2}}},
		"a set of none is skipped":  {[]int{0, 2}, 1, []quota.Set{{}, {Count: 2, Spare: 1}}},
		"none where none is needed": {[]int{2}, -1, []quota.Set{{Count: 2, Spare: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := quota.Needed(c.counts, c.need); !slices.Equal(got, c.want) {
				t.Errorf("Needed(%v, %d) = %+v, want %+v", c.counts, c.need, got, c.want)
			}
		})
	}
}

// unmade is a workload of a queue whose pods do not exist yet.
func unmade(id, queue string, set quota.Set, gpus int64) *quota.Workload {
	of, need := quota.Order([]quota.Set{set})
	w := &quota.Workload{ID: id, Queue: queue, User: "ann", Need: need}
	for k := range of {
		w.Pods = append(w.Pods, quota.Pod{ID: fmt.Sprintf("%s/%d", id, k), Pieces: each(gpus)})
	}
	return w
}

func TestAWorkloadStartsWhole(t *testing.T) {
	for name, c := range map[string]struct {
		o     quota.Outlook
		count int
		lack  quota.Lack
	}{
		"with quota and room for all, all start":                  {quota.Outlook{Need: 4, Count: 4, Quota: 4, Room: 4}, 4, quota.NoLack},
		"without quota it waits for quota":                        {quota.Outlook{Need: 4, Count: 4, Room: 4}, 0, quota.LackOfQuota},
		"without room it waits for room":                          {quota.Outlook{Need: 4, Count: 4, Quota: 4, Room: 3}, 0, quota.LackOfRoom},
		"with quota for fewer, as many start as there is for":     {quota.Outlook{Need: 2, Count: 4, Quota: 3, Room: 4}, 3, quota.NoLack},
		"with room for fewer, as many start as there is for":      {quota.Outlook{Need: 2, Count: 4, Quota: 4, Room: 3}, 3, quota.NoLack},
		"with room for fewer than it needs, it waits":             {quota.Outlook{Need: 2, Count: 4, Quota: 4, Room: 1}, 0, quota.LackOfRoom},
		"evictions give it no more quota than it needs":           {quota.Outlook{Need: 2, Count: 4, Reclaims: true, Room: 4}, 2, quota.NoLack},
		"evictions give it no more room than it needs":            {quota.Outlook{Need: 2, Count: 4, Quota: 4, Room: 1, Freed: 4}, 2, quota.NoLack},
		"evictions that leave it too little room do not help":     {quota.Outlook{Need: 2, Count: 4, Reclaims: true, Freed: 1}, 0, quota.LackOfRoom},
		"more nodes than it has pods do not make it larger":       {quota.Outlook{Need: 2, Count: 2, Quota: 2, Room: 9}, 2, quota.NoLack},
		"quota for fewer than it needs counts as none":            {quota.Outlook{Need: 3, Count: 4, Quota: 2, Room: 4}, 0, quota.LackOfQuota},
		"a workload of no pods starts":                            {quota.Outlook{}, 0, quota.NoLack},
		"room that evictions give counts where quota is free":     {quota.Outlook{Need: 1, Count: 1, Quota: 1, Freed: 1}, 1, quota.NoLack},
		"quota by evictions and room that is free are two things": {quota.Outlook{Need: 1, Count: 1, Reclaims: true, Room: 1}, 1, quota.NoLack},
	} {
		t.Run(name, func(t *testing.T) {
			if count, lack := c.o.Start(); count != c.count || lack != c.lack {
				t.Errorf("%+v.Start() = %d, %d; want %d, %d", c.o, count, lack, c.count, c.lack)
			}
		})
	}
}

func TestAPodTakesWhatIsKeptForOneOfItsJob(t *testing.T) {
	b := quota.NewBook(quota.NewTree([]quota.Spec{{Name: "red", Quotas: []quota.Quota{gpus(4)}}}))
	job := unmade("job", "red", quota.Set{Count: 2}, 2)
	if v := b.Try(job); v.Cause != quota.None || v.Count != 2 {
		t.Fatalf("the job: %+v", v)
	}
	until := time.Unix(60, 0)
	b.Keep(job, job.Pods, quota.Kind{}, until)
	other := ask("other", "red", "", 1)
	if v := b.Try(other); v.Cause != quota.Used {
		t.Errorf("another pod may have what is kept for the job: %+v", v)
	}
	made := quota.Pod{ID: "p", Pieces: each(2)}
	w := &quota.Workload{ID: "p", Queue: "red", Pods: []quota.Pod{made}}
	if v := b.Try(w); v.Cause != quota.Used {
		t.Errorf("a pod of the job that has taken nothing: %+v, want no quota", v)
	}
	switch {
	case b.Take("job", "p", "blue", made):
		t.Error("a pod of another queue takes what is kept")
	case b.Take("job", "p", "red", quota.Pod{ID: "p", Pieces: each(1)}):
		t.Error("a pod that asks for something else takes what is kept")
	case !b.Take("job", "p", "red", made):
		t.Error("the pod takes nothing")
	case b.Take("job", "p", "red", made):
		t.Error("the pod takes twice")
	}
	if v := b.Try(w); v.Cause != quota.None {
		t.Errorf("the pod of the job: %+v", v)
	}
	if held := b.Holds("red")[0]; held != 4*whole {
		t.Errorf("red has %s GPUs held and kept, want 4", quota.Text(held))
	}
	b.Expire(until)
	if held := b.Holds("red")[0]; held != 0 {
		t.Errorf("red has %s GPUs held and kept when the time is over, want 0", quota.Text(held))
	}
}

// TestTakingChangesNoCount has pods of jobs come, be placed, and fail at random beside the times
// that end: no count of the Book differs from adding up what there is, what a job has kept and
// its pods have taken is never more than was kept, and no queue holds more than it may.
func TestTakingChangesNoCount(t *testing.T) {
	for seed := range uint64(soak.Pick(60, 2000)) {
		chance := rand.New(rand.NewPCG(seed, 18))
		b := quota.NewBook(quota.NewTree([]quota.Spec{
			{Name: "org", Quotas: []quota.Quota{gpus(12)}}, {Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(6)}}, {Name: "blue", Parent: "org"},
		}))
		now, jobs, come := time.Unix(0, 0), 0, map[string]int{}
		kept := map[string]*quota.Workload{}
		for step := range 120 {
			now = now.Add(time.Duration(chance.IntN(20)) * time.Second)
			b.Expire(now)
			switch name := fmt.Sprint("job", chance.IntN(jobs+1)); chance.IntN(4) {
			case 0:
				id := fmt.Sprint("job", jobs)
				jobs++
				count := 1 + chance.IntN(4)
				set := quota.Needed([]int{count}, 1+chance.IntN(2))[0]
				w := unmade(id, []string{"red", "blue"}[chance.IntN(2)], set, 1+chance.Int64N(2))
				if v := b.Try(w); v.Cause == quota.None {
					w.Pods = w.Pods[:v.Count]
					b.Keep(w, w.Pods, quota.Kind{}, now.Add(time.Minute))
					kept[id] = w
				}
			case 1, 2:
				w := kept[name]
				if w == nil {
					continue
				}
				come[name]++
				pod := quota.Pod{ID: fmt.Sprint(name, "-", come[name]), Pieces: w.Pods[0].Pieces}
				before := b.Holds("org")[0]
				took := b.Take(name, pod.ID, w.Queue, pod)
				if after := b.Holds("org")[0]; after != before {
					t.Fatalf("seed %d, step %d: taking changes what is held from %d to %d", seed, step, before, after)
				}
				if left := len(b.Kept(name)); took && (come[name] > len(w.Pods) || left > len(w.Pods)-1) {
					t.Fatalf("seed %d, step %d: pod %d of %s takes, where %d were kept and %d are", seed, step, come[name], name, len(w.Pods), left)
				}
				if took && chance.IntN(2) == 0 {
					b.Hold(&quota.Holder{ID: pod.ID, Workload: pod.ID, Queue: w.Queue, User: "ann", Pieces: pod.Pieces})
				} else if took && chance.IntN(3) == 0 {
					b.Release(pod.ID)
				}
			case 3:
				if all := b.Holders(); len(all) > 0 {
					b.Gone(all[chance.IntN(len(all))].ID)
				}
			}
			if !b.Recount() {
				t.Fatalf("seed %d, step %d: the sums are not what is held", seed, step)
			}
			if over := b.OverLimit(); over != "" {
				t.Fatalf("seed %d, step %d: queue %s holds more than it may", seed, step, over)
			}
		}
	}
}
