package training

import (
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/core/checkpoint"
)

// forgetAfter is how long after the end of its grace period a pod is waited for whose node does not
// respond, before its member is created elsewhere.
const forgetAfter = time.Minute

// lost reports whether a pod cannot go on for a reason outside its program: it had a node, and is being deleted, was
// evicted, is on a node that will be gone soon, or has a GPU that has become unhealthy.
func (p *Pod) lost() bool {
	if p.Phase == Pending || p.Phase == Running {
		return p.Node != "" && (p.Deleting || p.Notice != "" || p.Fault != nil)
	}
	return p.Interrupted || (p.Disrupted || p.Fault != nil) && p.Phase == Failed
}

// isLost reports whether a pod is lost, and not one that failed by itself, was counted, and is being deleted for that.
func (p *pass) isLost(pod *Pod) bool { return pod.lost() && p.Job.Restarts[pod.key()].UID != pod.UID }

// loses returns the pods of this round that are lost, by rank, if the others cannot go on without them.
func (p *pass) loses() (lost []*Pod) {
	var are []*Pod
	for i := range p.Pods {
		if pod := &p.Pods[i]; p.isLost(pod) {
			are = append(are, pod)
		}
	}
	for i := range p.Gone {
		if pod := &p.Gone[i]; !slices.ContainsFunc(p.Pods, func(o Pod) bool { return o.Member == pod.Member }) {
			are = append(are, pod)
		}
	}
	for _, pod := range are {
		if pod.Round >= p.Job.Round && p.Job.has(pod.Member) {
			lost = append(lost, pod)
		}
	}
	if p.Job.goesOn(lost, p.Pods) {
		return nil
	}
	slices.SortStableFunc(lost, func(a, b *Pod) int { return p.Job.Rank(a.Member) - p.Job.Rank(b.Member) })
	return lost
}

// goesOn reports whether the other pods of a job can go on while those that are lost are created again. The pods of most jobs
// cannot: they wait for each other at each step. It does go on
//   - without its evaluators;
//   - if it is elastic, or names how many pods it needs, and enough are left; or if its workers are
//     dynamic, or served by parameter servers. None of them goes on without the replica that leads;
//   - if it is a TFJob of which some pods have succeeded already, so they do not depend on each other.
func (j *Job) goesOn(lost []*Pod, pods []Pod) bool {
	lost = slices.DeleteFunc(slices.Clone(lost), func(p *Pod) bool { return p.Type == Evaluator })
	if len(lost) == 0 {
		return true
	}
	done, workers := 0, true
	for i := range pods {
		if pods[i].succeeded() && j.has(pods[i].Member) {
			done++
		}
	}
	for _, p := range lost {
		if j.Leads(p.Member) || j.Elastic != nil && p.Member == (Member{Worker, 0}) {
			return false
		}
		workers = workers && p.Type == Worker
	}
	switch {
	case j.Kind == TFJob && done > 0:
		return true
	case workers && (j.Dynamic || j.Replica(PS) != nil):
		return true
	case j.Elastic != nil && workers, j.MinAvailable > 0:
		return j.Total()-done-len(lost) >= j.Least()
	}
	return false
}

// move plans for a job that has lost pods without which the others cannot go on: all are deleted, and
// start again together, as a gang, once none of them is left. It reports whether the job does so.
func (p *pass) move() bool {
	switch {
	case len(p.lost) > 0:
		p.Round++
		p.keepRestarts()
		p.Status.drop(ConditionRestarting)
		message := p.why()
		if loses := p.loss(); loses != "" {
			message += "; " + loses
		}
		if faulty(p.lost) != nil {
			message += keptOut
		}
		p.restarting(message)
	case p.leaving() && p.Status.Is(ConditionRunning): // the last pass was broken off after it had counted the round
		p.restarting(p.why())
	}
	for i := range p.Pods {
		pod := &p.Pods[i]
		if pod.Round >= p.Round {
			continue
		}
		if !pod.Deleting {
			p.DeletePods = append(p.DeletePods, *pod)
		}
	}
	return p.leaving()
}

// leaving reports whether pods of an earlier round are still there.
func (p *pass) leaving() bool {
	return slices.ContainsFunc(p.Pods, func(pod Pod) bool { return pod.Round < p.Round })
}

// keepRestarts counts what the containers of pods that go have been restarted, so a job that moves does not get
// new tries. Those of a pod with a faulty GPU may be the GPU's.
func (p *pass) keepRestarts() {
	for i := range p.Pods {
		pod := &p.Pods[i]
		if r := p.Job.Replica(pod.Type); pod.Phase == Running && pod.Restarts > 0 && pod.Fault == nil && r != nil && r.Restart != RestartNever {
			p.Restarts = p.Restarts.add(pod, pod.Restarts)
		}
	}
}

// why says why the job moves.
func (p *pass) why() string {
	if len(p.lost) == 0 {
		return fmt.Sprintf("job %s is restarting as a whole because some of its pods were evicted or deleted", p.Job.Name)
	}
	first := p.lost[0]
	if f := faulty(p.lost); f != nil {
		first = f
	}
	switch n := len(p.lost); {
	case p.Job.Total() == 1:
		return fmt.Sprintf("job %s is restarting because its pod %s %s", p.Job.Name, first.Name, first.cause())
	case n == p.Job.Total():
		return fmt.Sprintf("job %s is restarting because all its pods are lost: %s %s", p.Job.Name, first.Name, first.cause())
	case n > 1:
		return fmt.Sprintf("job %s is restarting as a whole because %d of its pods are lost, and the others cannot go on without them: %s %s", p.Job.Name, n, first.Name, first.cause())
	}
	return fmt.Sprintf("job %s is restarting as a whole because its pod %s %s, and the others cannot go on without it", p.Job.Name, first.Name, first.cause())
}

// loss says what work is lost, as a part of a sentence about the job, or "". One pod may save the work of all. A program whose
// pod is gone was not asked to stop.
func (p *pass) loss() string {
	var saves checkpoint.Saves
	var start time.Time
	milli, abrupt := int64(0), false
	for _, list := range [][]Pod{p.Pods, p.Gone} {
		for i := range list {
			pod := &list[i]
			if pod.Start.IsZero() || pod.Round >= p.Round || !p.Job.has(pod.Member) {
				continue
			}
			last := saves.Last
			if saves = pod.Saves; last.After(saves.Last) {
				saves.Last = last
			}
			if start.IsZero() || pod.Start.Before(start) {
				start = pod.Start
			}
			milli += pod.MilliGPUs
		}
	}
	for _, pod := range p.lost {
		abrupt = abrupt || pod.Why == taintManager || pod.Phase == Failed && !pod.Interrupted || slices.ContainsFunc(p.Gone, func(g Pod) bool { return g.UID == pod.UID })
	}
	saves.Unasked = abrupt
	return saves.Sentence(start, p.Now, milli)
}

// cause says what has happened to a pod that is lost.
func (p *Pod) cause() string {
	on := "node " + p.Node
	if p.Node == "" {
		on = "its node"
	}
	if p.Fault != nil {
		return p.Fault.cause(on)
	}
	switch p.Why {
	case "PreemptionByScheduler", "Preempting":
		return "was preempted on " + on
	case "QuotaReclaimed":
		return "was evicted from " + on + " to return quota"
	case "EvictionByEvictionAPI":
		return "was evicted from " + on + ", as by kubectl drain"
	case taintManager:
		return "was evicted from " + on + ", which does not respond or has a taint NoExecute"
	case "DeletionByPodGC", "NodeLost":
		return "was lost with " + on
	case "Evicted", "TerminationByKubelet":
		return "was ended by the kubelet of " + on
	case "":
		if !p.Disrupted && p.Notice != "" {
			return fmt.Sprintf("is on %s, which has the taint %s, so it will be gone soon", on, p.Notice)
		}
		if !p.Disrupted {
			return "was deleted on " + on
		}
	}
	return fmt.Sprintf("was evicted from %s (%s)", on, p.Why)
}

// taintManager is the reason of pods that Kubernetes deletes because their node does not respond, or has a taint
// that they do not tolerate.
const taintManager = "DeletionByTaintManager"

// forget plans to delete pods whose nodes do not respond, once their grace periods are over: such a pod
// stays for as long as its node, with its name, and the job could not go on.
func (p *pass) forget() {
	for i := range p.Pods {
		pod := &p.Pods[i]
		if !pod.Deleting || pod.Why != taintManager || pod.Killed.IsZero() {
			continue
		}
		if at := pod.Killed.Add(forgetAfter); p.Now.Before(at) {
			p.again(at)
		} else {
			p.ForgetPods = append(p.ForgetPods, *pod)
		}
	}
}
