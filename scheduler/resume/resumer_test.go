package resume_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/request"
	schedulerquota "berth.dev/berth/scheduler/quota"
)

func newChance(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 18)) }

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// one is a queue with so many GPUs, and nothing else.
func one(n int64) []quota.Spec { return cohort(n, map[string]int64{"red": n}) }

func TestJobsAreResumedInTheirTurn(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []int
		specs []quota.Spec
		play  func(r *rig)
	}{
		{"one after the other where there is quota for one", []int{8}, one(4), func(r *rig) {
			r.create("a", "red", 4, 1)
			r.create("b", "red", 4, 1)
			r.want("a=4 b-")
			r.finish("a")
			r.want("b=4")
			if want := "a ResumedInTurn: resumed in its turn: there are quota and nodes for its 4 pods"; len(r.told) != 2 || r.told[0] != want {
				r.Errorf("events are %q, want first %q", r.told, want)
			}
		}},
		{"the older first", []int{4}, one(4), func(r *rig) {
			r.create("a", "red", 1, 4)
			r.create("b", "red", 1, 4)
			r.create("c", "red", 1, 4)
			r.finish("a")
			r.want("b=1 c-")
		}},
		{"one of a higher priority of the line first", []int{4}, one(4), func(r *rig) {
			r.create("a", "red", 1, 4)
			r.create("b", "red", 1, 4)
			r.create("c", "red", 1, 4, func(j *batchv1.Job) { j.Labels = map[string]string{api.LabelKueuePriority: "urgent"} })
			r.finish("a")
			r.want("b- c=1")
		}},
		{"a smaller one before a larger one that does not fit", []int{4}, one(4), func(r *rig) {
			r.create("a", "red", 2, 1)
			r.create("b", "red", 4, 1)
			r.create("c", "red", 2, 1)
			r.want("a=2 b- c=2")
		}},
		{"whole or not at all", []int{8}, one(3), func(r *rig) {
			r.create("a", "red", 4, 1)
			r.want("a-")
		}},
		{"with fewer pods, if it says so", []int{8}, one(3), func(r *rig) {
			r.create("a", "red", 4, 1, note(api.AnnotationKueueMinParallelism, "2"))
			r.want("a=3")
			if j := r.job("a"); *j.Spec.Parallelism != 3 || j.Annotations[api.AnnotationParallelism] != "4" {
				r.Errorf("parallelism is %d and was %q", *j.Spec.Parallelism, j.Annotations[api.AnnotationParallelism])
			}
			if !strings.Contains(r.told[0], "for 3 of its 4 pods") {
				r.Errorf("events are %q", r.told)
			}
		}},
		{"Berth's own annotation goes before Kueue's", []int{8}, one(3), func(r *rig) {
			r.create("a", "red", 4, 1, note(api.AnnotationKueueMinParallelism, "2"), note(api.AnnotationMinParallelism, "4"))
			r.want("a-")
		}},
		{"and with all of them the next time", []int{8}, one(4), func(r *rig) {
			p := r.pod("p", "red", "n0", 1)
			r.create("a", "red", 4, 1, note(api.AnnotationMinParallelism, "2"))
			r.want("a=3")
			r.end(p)
			r.change("a", func(j *batchv1.Job) { j.Spec.Suspend = new(true); delete(j.Annotations, api.AnnotationResumed) })
			r.want("a=4")
			if j := r.job("a"); j.Annotations[api.AnnotationParallelism] != "" {
				r.Errorf("parallelism is %d and was %q", *j.Spec.Parallelism, j.Annotations[api.AnnotationParallelism])
			}
		}},
		{"with fewer pods, where nodes have no room for more", []int{1, 1}, one(8), func(r *rig) {
			r.create("a", "red", 4, 1, note(api.AnnotationMinParallelism, "1"))
			r.want("a=2")
		}},
		{"only where nodes have room", []int{4}, one(8), func(r *rig) {
			p := r.pod("p", "", "n0", 2)
			r.create("a", "red", 4, 1)
			r.want("a-")
			r.end(p)
			time.Sleep(2 * time.Second)
			r.settle()
			r.want("a=4")
		}},
		{"only where nodes have room for all, one beside the other", []int{3, 3}, one(8), func(r *rig) {
			r.create("a", "red", 3, 2)
			r.want("a-")
			r.create("b", "red", 2, 2)
			r.want("a- b=2")
		}},
		{"on a node that comes", []int{1}, one(8), func(r *rig) {
			r.create("a", "red", 1, 2)
			r.want("a-")
			r.add(8)
			time.Sleep(11 * time.Second)
			r.settle()
			r.want("a=1")
		}},
		{"one at a time where nodes have room for one, and quota is there for two", []int{4}, one(8), func(r *rig) {
			r.late = true
			r.create("a", "red", 3, 1)
			r.create("b", "red", 3, 1)
			r.want("a=0 b-")
			r.late = false
			r.settle()
			r.want("a=3 b-")
		}},
		{"to take back what others borrow", []int{8}, cohort(8, map[string]int64{"red": 4, "blue": 4}), func(r *rig) {
			p := r.pod("p", "blue", "n0", 8)
			r.create("a", "red", 4, 1)
			r.want("a=0/4") // its pods have p evicted, as pods do
			if !strings.Contains(r.told[0], "others are evicted to give its pods the quota") {
				r.Errorf("events are %q", r.told)
			}
			r.end(p)
			r.settle()
			r.want("a=4")
		}},
		{"but not to take what is not borrowed", []int{8}, cohort(8, map[string]int64{"red": 4, "blue": 4}), func(r *rig) {
			r.pod("p", "blue", "n0", 4)
			r.create("a", "red", 8, 1)
			r.want("a-")
		}},
		{"unless a person has suspended it", []int{8}, one(4), func(r *rig) {
			r.create("a", "red", 4, 1)
			r.want("a=4")
			r.change("a", func(j *batchv1.Job) { j.Spec.Suspend = new(true) })
			time.Sleep(2 * time.Minute)
			r.want("a-")
			r.change("a", func(j *batchv1.Job) { delete(j.Annotations, api.AnnotationResumed) })
			r.want("a=4")
		}},
		{"again, if it has lost all its pods and there is no quota for others", []int{8}, one(4), func(r *rig) {
			r.create("a", "red", 4, 1)
			time.Sleep(2 * time.Minute)
			r.late = true
			for _, p := range r.of("a") {
				r.end(p)
			}
			p := r.pod("p", "red", "n0", 4)
			r.late = false
			r.settle()
			r.want("a-")
			if last := r.told[len(r.told)-1]; !strings.HasPrefix(last, "a SuspendedUntilTurn: suspended until its turn, as there is no quota") {
				r.Errorf("events are %q", r.told)
			}
			r.end(p)
			r.settle()
			r.want("a=4")
		}},
		{"but goes on with the pods that it has kept", []int{8}, one(4), func(r *rig) {
			r.create("a", "red", 4, 1)
			time.Sleep(2 * time.Minute)
			r.late = true
			r.end(r.of("a")[0])
			r.pod("p", "red", "n0", 1)
			r.late = false
			r.settle()
			r.want("a=3/4")
		}},
		{"unless it does not say that it waits for its turn", []int{8}, one(4), func(r *rig) {
			r.create("a", "red", 1, 1, func(j *batchv1.Job) { delete(j.Annotations, api.AnnotationResume) })
			r.create("b", "red", 1, 1, note(api.AnnotationResume, "soon"))
			r.create("c", "red", 1, 1, func(j *batchv1.Job) { j.Labels = map[string]string{api.LabelKueueQueue: "q"} })
			r.create("d", "red", 1, 1, func(j *batchv1.Job) { j.Spec.ManagedBy = new("kueue.x-k8s.io/multikueue") })
			r.create("e", "red", 0, 1)
			r.create("f", "", 1, 1)
			r.want("a- b- c- d- e- f-")
		}},
		{"when it says so later", []int{8}, one(4), func(r *rig) {
			r.create("a", "red", 1, 1, func(j *batchv1.Job) { delete(j.Annotations, api.AnnotationResume) })
			r.change("a", func(j *batchv1.Job) { j.Annotations = map[string]string{api.AnnotationResume: api.ResumeInTurn} })
			r.want("a=1")
		}},
		{"when its queue gets more", []int{8}, one(2), func(r *rig) {
			r.create("a", "red", 4, 1)
			r.want("a-")
			r.change("a", func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(2)) })
			r.want("a=2")
		}},
		{"again after a write that failed", []int{8}, one(4), func(r *rig) {
			r.refuse(errors.New("this scheduler does not lead"))
			r.create("a", "red", 4, 1)
			r.want("a-")
			r.refuse(nil)
			time.Sleep(5 * time.Second)
			r.settle()
			r.want("a=4")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.nodes...)
				stop := r.start(c.specs...)
				defer stop()
				c.play(r)
			})
		})
	}
}

// tries reports whether a pod of a queue may be placed.
func (r *rig) tries(name string, gpus int64) bool {
	p := r.pod(name, "red", "", gpus)
	defer r.end(p)
	return r.quota.Try(schedulerquota.Alone(p, request.TicketOf(p))).Refused == ""
}

func TestQuotaIsKeptForTheirPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 8)
		r.late = true
		stop := r.start(one(4)...)
		defer stop()
		r.create("a", "red", 3, 1)
		if r.tries("p", 2) {
			t.Error("another pod gets the quota of a Job whose pods have not come yet")
		}
		if !r.tries("p", 1) {
			t.Error("another pod does not get what the Job leaves")
		}
		time.Sleep(time.Minute)
		r.settle()
		if !r.tries("p", 4) {
			t.Error("a minute later quota is still kept for pods that do not come")
		}
	})
}

func TestANewSchedulerKeepsQuotaForTheirPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 8)
		r.late = true
		stop := r.start(one(4)...)
		r.create("a", "red", 3, 1)
		r.create("b", "red", 3, 1)
		r.want("a=0 b-")
		stop()
		defer r.start(one(4)...)()
		r.want("a=0 b-")
		if r.tries("p", 2) {
			t.Error("another pod gets the quota of a Job that the scheduler before has resumed")
		}
		r.late = false
		r.settle()
		r.want("a=3 b-")
		time.Sleep(2 * time.Minute)
		r.settle()
		if r.tries("p", 2) {
			t.Error("another pod gets the quota of pods that run")
		}
		if !r.tries("p", 1) {
			t.Error("quota is kept for pods that have come")
		}
		r.finish("a")
		r.want("b=3")
	})
}

func TestAStateFromBeforeTheWriteChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 8)
		r.late = true
		defer r.start(one(4)...)()
		r.create("a", "red", 3, 1)
		before := r.job("a")
		before.ResourceVersion, before.Spec.Suspend = "1", new(true)
		delete(before.Annotations, api.AnnotationResumed)
		if err := r.client.Tracker().Update(jobs, before, "d"); err != nil {
			t.Fatal(err)
		}
		r.settle()
		if len(r.told) != 1 {
			t.Errorf("events are %q, want one", r.told)
		}
		if r.tries("p", 2) {
			t.Error("another pod gets the quota of the Job")
		}
	})
}

// TestNoneIsForgotten has Jobs and PyTorchJobs of two queues come, be parked, and complete at random, with a scheduler that is
// started again now and then: what runs and is kept never exceeds the quota, what is parked stays so,
// and at the end, when nothing comes any longer, all others have run.
func TestNoneIsForgotten(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { churn(t, seed) })
		})
	}
}

func churn(t *testing.T, seed uint64) {
	r, chance := newRig(t, 4, 4, 3), newChance(seed)
	specs := cohort(10, map[string]int64{"red": 5, "blue": 5})
	stop := r.start(specs...)
	defer func() { stop() }()
	parked, waits, ran := map[string]bool{}, map[string]bool{}, 0
	look := func() {
		used := int64(0)
		for _, p := range r.all() {
			if p.Spec.NodeName != "" {
				used += request.Of(p)["nvidia.com/gpu"]
			}
		}
		if used > 10 {
			t.Fatalf("pods hold %d GPUs of 10", used)
		}
		for name := range parked {
			if !r.suspended(name) {
				t.Fatalf("%s is resumed, and a person has parked it", name)
			}
		}
	}
	for n := range 60 {
		name := fmt.Sprint("j", n)
		switch chance.IntN(5) {
		case 0, 1, 2:
			gpus := 1 + chance.Int64N(3)
			var how []func(*batchv1.Job)
			if chance.IntN(3) == 0 {
				how = append(how, note(api.AnnotationMinParallelism, "1"))
			}
			if queue, pods := []string{"red", "blue"}[chance.IntN(2)], 1+chance.Int32N(3); chance.IntN(2) == 0 {
				r.create(name, queue, pods, gpus, how...)
			} else {
				r.train(name, queue, pods, gpus)
			}
			waits[name] = true
		case 3:
			for name := range waits {
				if chance.IntN(2) == 0 && !r.suspended(name) {
					r.park(name)
					parked[name] = true
					delete(waits, name)
					break
				}
			}
		case 4:
			stop()
			stop = r.start(specs...)
		}
		ran += r.completeOne(waits)
		look()
	}
	for range 400 {
		if len(waits) == 0 {
			break
		}
		time.Sleep(11 * time.Second)
		r.settle()
		ran += r.completeOne(waits)
		look()
	}
	if len(waits) > 0 || ran < 10 {
		t.Errorf("%d ran, and %v never did", ran, slices.Sorted(func(yield func(string) bool) {
			for name := range waits {
				if !yield(r.states(name)) {
					return
				}
			}
		}))
	}
}

// completeOne has the first object by name complete all of whose pods run.
func (r *rig) completeOne(waits map[string]bool) int {
	var runs []string
	for name := range waits {
		placed := len(r.of(name)) > 0
		for _, p := range r.of(name) {
			placed = placed && p.Spec.NodeName != ""
		}
		if placed {
			runs = append(runs, name)
		}
	}
	if len(runs) == 0 {
		return 0
	}
	name := slices.Min(runs)
	delete(waits, name)
	r.finish(name)
	return 1
}
