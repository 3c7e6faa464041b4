package devices_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/sim"
)

// playFor is how long jobs are played.
const playFor = 5 * time.Minute

// player brings jobs to a scheduler, ends pods when their run is over or they are lost
// or evicted, and creates them again as their controllers would.
type player struct {
	*rig
	began   time.Time
	next    []timed // the next one first
	serial  int
	of      map[types.UID]part
	started []sim.Start
}

// part is what a pod is of a job.
type part struct {
	job          *sim.Job
	number, made int
}

// timed is what happens at a time, in the order of sim.Jobs.
type timed struct {
	at     time.Duration
	kind   int
	pod    string // that it is about; "" is several
	serial int
	do     func()
}

const (
	ends = iota
	returns
	arrives
)

func (y *player) at(at time.Duration, kind int, pod string, do func()) {
	y.serial++
	e := timed{at, kind, pod, y.serial, do}
	i, _ := slices.BinarySearchFunc(y.next, e, func(a, b timed) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.pod, b.pod), cmp.Compare(a.serial, b.serial))
	})
	y.next = slices.Insert(y.next, i, e)
}

func (y *player) now() time.Duration { return time.Since(y.began) }

// play plays jobs and schedules whenever there is something to do. It returns what has
// started.
func play(r *rig, jobs []sim.Job, losses []sim.Loss) []sim.Start {
	return newPlayer(r, jobs, losses).play()
}

func newPlayer(r *rig, jobs []sim.Job, losses []sim.Loss) *player {
	y := &player{rig: r, began: time.Now(), of: map[types.UID]part{}}
	for i := range jobs {
		y.at(jobs[i].At, arrives, "", func() {
			for k := range jobs[i].Pods {
				y.create(part{&jobs[i], k, 0})
			}
		})
	}
	for _, l := range losses {
		y.at(l.At, returns, l.Pod, func() { y.loss(l.Pod) })
	}
	r.answer = func(b *v1.Binding) error {
		y.started = append(y.started, sim.Start{At: y.now(), Pod: b.Name, Node: b.Target.Name})
		if run := y.run(y.of[b.UID]); run > 0 {
			y.at(y.now()+run, ends, b.Name, func() { y.end(b.UID, false) })
		}
		return nil
	}
	r.lose = func(pod *v1.Pod) error {
		y.update(pod.UID, func(p *v1.Pod) { p.Status.StartTime = &metav1.Time{Time: time.Now()} })
		y.enter(y.pods[pod.UID], pod.Spec.NodeName)
		return nil
	}
	return y
}

func (y *player) play() []sim.Start {
	for {
		at := playFor
		if len(y.next) > 0 {
			at = min(at, y.next[0].at)
		}
		select {
		case <-y.news:
			synctest.Wait()
		case <-time.After(at - y.now()):
			if at == playFor {
				return y.started
			}
			synctest.Wait() // what timers of the scheduler want comes first
			y.rig.run()
			first := y.next[0]
			y.next = y.next[1:]
			first.do()
		}
		y.rig.run()
	}
}

// run is how long a pod runs.
func (y *player) run(p part) time.Duration {
	if p.job.Run == 0 {
		return 0
	}
	return p.job.Run + time.Duration(p.number)*p.job.Spread
}

// end deletes a pod, if it is there yet.
func (y *player) end(uid types.UID, lost bool) {
	if y.pods[uid] == nil {
		return
	}
	p := y.of[uid]
	y.update(uid, func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} }) // the simulation learns no run times
	y.remove(string(uid))
	if lost && p.job.Replace > 0 {
		y.at(y.now()+p.job.Replace, returns, string(uid), func() { y.create(part{p.job, p.number, p.made + 1}) })
	}
}

// loss deletes the pod that runs in the place of one.
func (y *player) loss(name string) {
	for _, uid := range slices.Sorted(maps.Keys(y.pods)) {
		if p, pod := y.of[uid], y.pods[uid]; fmt.Sprint(p.job.Name, "-", p.number) == name && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			y.end(uid, true)
			return
		}
	}
}

// create creates a pod.
func (y *player) create(p part) {
	j := p.job
	pod := gangOf(j.Name, p.number+1, j.Least, fmt.Sprint("gpu=", j.Request.GPUs))[p.number]
	if p.made > 0 {
		pod.Name += fmt.Sprint("-r", p.made)
		pod.UID = types.UID(pod.Name)
	}
	never := v1.PreemptNever
	pod.CreationTimestamp, pod.Spec.Priority, pod.Spec.PreemptionPolicy = metav1.NewTime(time.Now()), &j.Priority, &never
	if pod.Annotations[api.AnnotationTopology] = j.Within.String(); j.Least == 0 {
		pod.Annotations = map[string]string{}
	}
	if j.Grace > 0 {
		pod.Annotations[api.AnnotationGangGrace] = j.Grace.String()
	}
	if j.Declared {
		pod.Annotations[api.AnnotationMaxRunTime] = y.run(p).String()
	}
	if j.Replace > 0 {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: j.Name, UID: types.UID(j.Name), Controller: new(true)}}
	}
	y.of[pod.UID] = p
	y.add(pod)
}
