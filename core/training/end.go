package training

import (
	"fmt"
	"slices"
	"time"
)

// afterEnd plans for a job that has ended: pods and Services go by its policy, and the job
// at the end of its time to live.
func (p *pass) afterEnd() {
	kept := map[Member]bool{}
	for i := range p.Pods {
		pod := &p.Pods[i]
		switch {
		case !p.cleans(pod):
			kept[pod.Member] = true
		case !pod.Deleting:
			p.DeletePods = append(p.DeletePods, *pod)
		}
	}
	for _, s := range p.Services {
		if s.Member != Whole && !kept[s.Member] && (p.overLimit() || p.Job.Clean != CleanNone) || s.Member == Whole && len(kept) == 0 {
			p.DeleteServices = append(p.DeleteServices, s)
		}
	}
	if p.Status.Is(ConditionSucceeded) {
		for t, r := range p.Status.Replicas {
			p.Status.Replicas[t] = ReplicaStatus{Succeeded: r.Succeeded + r.Active, Failed: r.Failed}
		}
	}
	switch at, ok := p.expires(); {
	case !ok:
	case p.Now.Before(at):
		p.again(at)
	default:
		p.DeleteJob = p.Job.Kind != TrainJob
	}
}

// expires returns when a job that has ended is deleted, or of a TrainJob what is left of its pods.
func (p *pass) expires() (time.Time, bool) {
	if p.Job.TTL == nil || p.Job.Suspend || p.Status.End.IsZero() {
		return time.Time{}, false
	}
	return p.Status.End.Add(*p.Job.TTL), true
}

// cleans reports whether a pod of a job that has ended is deleted.
func (p *pass) cleans(pod *Pod) bool {
	switch {
	case p.overLimit(), p.Job.Clean == CleanAll:
		return true
	case p.Job.Kind == TrainJob && p.expired():
		return true
	case p.Job.Clean == CleanRunning:
		return pod.Phase == Running || pod.Phase == Pending
	}
	return false
}

// expired reports whether the job's time to live after its end is over.
func (p *pass) expired() bool {
	at, ok := p.expires()
	return ok && !p.Now.Before(at)
}

// suspend plans for a job that is suspended: nothing of it stays.
func (p *pass) suspend() {
	if slices.ContainsFunc(p.Pods, func(pod Pod) bool { return pod.Round >= p.Round }) {
		p.Round++ // those of a job that is resumed start when these are gone
	}
	for i := range p.Pods {
		if !p.Pods[i].Deleting {
			p.DeletePods = append(p.DeletePods, p.Pods[i])
		}
	}
	p.DeleteServices = p.Services
	if !p.InTurn { // else it goes on where it was
		p.Restarts = nil
	}
	for t, r := range p.Status.Replicas {
		r.Active = 0
		p.Status.Replicas[t] = r
	}
	message := p.said("suspended")
	if p.Status.Is(ConditionRunning) {
		p.Status.set(Condition{Type: ConditionRunning, Reason: p.reason(ConditionSuspended), Message: message}, p.Now)
	}
	if !p.Status.Is(ConditionSuspended) {
		p.event(false, ConditionSuspended, message)
		p.Status.set(Condition{Type: ConditionSuspended, True: true, Reason: p.reason(ConditionSuspended), Message: message}, p.Now)
	}
}

// resume sets Suspended to False after a suspension. The time of the job starts again.
func (p *pass) resume() {
	if !p.Status.Is(ConditionSuspended) {
		return
	}
	message := p.said("resumed")
	p.event(false, "Resumed", message)
	p.Status.set(Condition{Type: ConditionSuspended, Reason: p.reason("Resumed"), Message: message}, p.Now)
	p.Status.Start = p.Now
}

// kept adds an event if policy None leaves pods of a job that has just ended, which keep their GPUs
// until they end themselves.
func (p *pass) kept() {
	if p.Job.Clean != CleanNone || p.overLimit() {
		return
	}
	n := 0
	for i := range p.Pods {
		if pod := &p.Pods[i]; !pod.Deleting && (pod.Phase == Running || pod.Phase == Pending) {
			n++
		}
	}
	if n > 0 {
		p.Events = append(p.Events, Event{Warning: true, Reason: "PodsKept", Message: fmt.Sprintf(
			"%s %s has ended, and %d of its pods keep what they hold, as spec.runPolicy.cleanPodPolicy is None: set it to Running to delete them", p.Job.Kind, p.Job.Name, n)})
	}
}

// Invalid returns the status of a job that cannot be run, with why. runtime is that a TrainJob's runtime cannot.
func Invalid(j *Job, why string, runtime bool, now time.Time) Status {
	s := j.Status.clone()
	if s.End.IsZero() {
		s.End = now
	}
	reason := string(j.Kind) + "FailedValidation"
	if runtime {
		reason = reasonNotSupported
	}
	s.set(Condition{Type: ConditionFailed, True: true, Reason: reason, Message: fmt.Sprintf("%s %s cannot run: %s", j.Kind, j.Name, why)}, now)
	return s
}
