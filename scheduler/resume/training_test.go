package resume_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// suspended reports whether an object is suspended.
func (r *rig) suspended(name string) bool { return queues.Of(r.find(name), nil).Is }

// park has a person suspend an object.
func (r *rig) park(name string) {
	if _, is := r.find(name).(*batchv1.Job); is {
		r.change(name, func(j *batchv1.Job) { j.Spec.Suspend = new(true) })
	} else {
		r.retrain(name, func(j *kubeflow.PyTorchJob) { j.Spec.RunPolicy.Suspend = new(true) })
	}
}

func elastic(least, most int32) func(*kubeflow.PyTorchJob) {
	return func(j *kubeflow.PyTorchJob) {
		j.Spec.ElasticPolicy = &kubeflow.ElasticPolicy{MinReplicas: &least, MaxReplicas: &most}
	}
}

func TestTrainingJobsAreResumedInTheirTurn(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []int
		specs []quota.Spec
		play  func(r *rig)
	}{
		{"one after the other, with their Masters", []int{8}, one(4), func(r *rig) {
			r.train("a", "red", 4, 1)
			r.train("b", "red", 2, 2)
			r.want("a=5 b-")
			r.finish("a")
			r.want("b=3")
			if want := "a ResumedInTurn: resumed in its turn: there are quota and nodes for its 5 pods"; len(r.told) != 2 || r.told[0] != want {
				r.Errorf("events are %q, want first %q", r.told, want)
			}
			if at := r.find("b").GetAnnotations()[api.AnnotationResumed]; at == "" {
				r.Errorf("b does not say when it was resumed")
			}
		}},
		{"in one line with Jobs", []int{8}, one(4), func(r *rig) {
			r.create("a", "red", 4, 1)
			r.train("b", "red", 4, 1)
			r.create("c", "red", 4, 1)
			r.train("d", "red", 4, 1)
			r.finish("a")
			r.want("b=5 c- d-")
			r.finish("b")
			r.want("c=4 d-")
			r.finish("c")
			r.want("d=5")
		}},
		{"whole or not at all", []int{8}, one(3), func(r *rig) {
			r.train("a", "red", 4, 1)
			r.want("a-")
		}},
		{"with the fewest workers, if they are elastic: the others wait as pods", []int{8}, one(3), func(r *rig) {
			r.train("a", "red", 4, 1, elastic(2, 4))
			r.want("a=4/5")
			if !strings.Contains(r.told[0], "for 4 of its 5 pods") {
				r.Errorf("events are %q", r.told)
			}
		}},
		{"only where nodes have room for all", []int{3, 3}, one(8), func(r *rig) {
			r.train("a", "red", 3, 2)
			r.want("a-")
			r.train("b", "red", 2, 2)
			r.want("a- b=3")
		}},
		{"only where nodes have room beside pods that are to come", []int{4}, one(16), func(r *rig) {
			r.late = true
			r.train("a", "red", 2, 2)
			r.train("b", "red", 1, 1)
			r.want("a=0 b-")
			r.late = false
			r.settle()
			r.want("a=3 b-")
		}},
		{"unless a person has suspended them", []int{8}, one(4), func(r *rig) {
			r.train("a", "red", 4, 1)
			r.want("a=5")
			r.park("a")
			time.Sleep(2 * time.Minute)
			r.want("a-")
			r.retrain("a", func(j *kubeflow.PyTorchJob) { delete(j.Annotations, api.AnnotationResumed) })
			r.want("a=5")
		}},
		{"again, if one has lost all its pods and there is no quota for others", []int{8}, one(4), func(r *rig) {
			r.train("a", "red", 4, 1)
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
			r.want("a=5")
		}},
		{"but not one whose Master has kept its node", []int{8}, one(4), func(r *rig) {
			r.train("a", "red", 4, 1)
			time.Sleep(2 * time.Minute)
			r.late = true
			for _, p := range r.of("a") {
				if request.AsksForGPUs(p) {
					r.end(p)
				}
			}
			r.pod("p", "red", "n0", 4)
			r.late = false
			r.settle()
			r.want("a=1/5")
		}},
		{"when their definition is served later", []int{8}, one(4), func(r *rig) {
			r.train("a", "red", 4, 1)
			r.want("a=5")
		}},
		{"unless they cannot run, or another controller runs them", []int{8}, one(8), func(r *rig) {
			r.train("a", "red", 0, 1)
			r.train("b", "red", 1, 1, func(j *kubeflow.PyTorchJob) { j.Spec.RunPolicy.ManagedBy = new("kueue.x-k8s.io/multikueue") })
			r.train("c", "red", 1, 1, func(j *kubeflow.PyTorchJob) { delete(j.Annotations, api.AnnotationResume) })
			r.train("d", "", 1, 1)
			r.want("a- b- c- d-")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.nodes...)
				r.missing = strings.Contains(c.name, "served later")
				stop := r.start(c.specs...)
				defer stop()
				if r.missing {
					time.Sleep(time.Minute)
					r.mu.Lock()
					r.missing = false
					r.mu.Unlock()
					time.Sleep(30 * time.Second)
					r.settle()
				}
				c.play(r)
			})
		})
	}
}

func TestANewSchedulerKeepsQuotaForThePodsOfATrainingJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 8)
		r.late = true
		stop := r.start(one(4)...)
		r.train("a", "red", 3, 1)
		r.create("b", "red", 3, 1)
		r.want("a=0 b-")
		stop()
		defer r.start(one(4)...)()
		r.want("a=0 b-")
		if r.tries("p", 2) {
			t.Error("another pod gets the quota of a job that the scheduler before has resumed")
		}
		if !r.tries("p", 1) {
			t.Error("quota is kept for the Master, which has no GPU")
		}
		r.late = false
		r.settle()
		r.want("a=4 b-")
		r.finish("a")
		r.want("b=3")
	})
}
