package training

import "fmt"

// failures plans what happens to pods that have failed: each is deleted, to be
// created again, or fails the job. Pods that were evicted are always created again.
func (p *pass) failures() {
	for _, r := range p.Job.Replicas {
		fatal, evicted, restarted, leaving := 0, 0, 0, len(p.DeletePods)
		var fault *Pod // that does not go yet
		for i := range p.Pods {
			pod := &p.Pods[i]
			switch {
			case pod.Type != r.Type || !p.Job.has(pod.Member):
				continue
			case p.isLost(pod):
				evicted++
				if pod.Fault != nil && !pod.Deleting && fault == nil {
					fault = pod
				}
			case r.restarts(pod):
				restarted++
				p.failure(pod)
			case pod.failed():
				fatal++
				continue
			default:
				continue
			}
			if !pod.Deleting {
				p.DeletePods = append(p.DeletePods, *pod)
			}
		}
		switch {
		case fatal > 0 && !(p.Job.Dynamic && r.Type == Worker):
			p.fail(p.failed(&r, fatal))
			return
		case p.Job.Kind == TrainJob && len(p.DeletePods) == leaving:
			// It has no condition Restarting, which would keep it from saying again what it said in an earlier pass.
		case fault != nil:
			p.Status.drop(ConditionRestarting)
			p.restarting(fmt.Sprintf("job %s is restarting its pod %s, which %s%s", p.Job.Name, fault.Name, fault.cause(), keptOut))
		case restarted > 0:
			p.restarting(fmt.Sprintf("job %s is restarting because %s replica(s) failed.", p.Job.Name, r.Type))
		case evicted > 0:
			p.restarting(fmt.Sprintf("job %s is restarting because %s replica(s) were evicted or deleted.", p.Job.Name, r.Type))
		}
	}
}

// failure counts the failure of a pod that is created again, with an event if the program is the likely cause.
func (p *pass) failure(pod *Pod) {
	was := p.Restarts.program(p.Job.Name, pod.Member)
	p.Restarts = p.Restarts.with(pod)
	if text := p.Restarts.program(p.Job.Name, pod.Member); text != "" && was == "" {
		p.Events = append(p.Events, Event{Warning: true, Reason: "SameExitCode", Message: text})
	}
}

// restarting sets the condition Restarting, with an event when it was not set.
func (p *pass) restarting(message string) {
	if !p.Status.Is(ConditionRestarting) {
		p.event(true, ConditionRestarting, message)
	}
	p.Status.set(Condition{Type: ConditionRestarting, True: true, Reason: p.reason(ConditionRestarting), Message: message}, p.Now)
}

// failed returns why a job fails, as upstream writes it for each kind and policy.
func (p *pass) failed(r *Replica, n int) string {
	switch {
	case p.Job.Kind == TrainJob:
		return trainFailed(p.Job.Name)
	case r.Restart == RestartExitCode:
		return fmt.Sprintf("job %q is failing because %q replica(s) failed.", p.Job.Name, r.Type)
	case p.Job.Kind == PyTorchJob:
		return fmt.Sprintf("PyTorchJob %s is failed because %d %s replica(s) failed.", p.Job.Name, n, r.Type)
	}
	return fmt.Sprintf("TFJob %s has failed because %d %s replica(s) failed.", p.full(), n, r.Type)
}

// limit returns why the job has reached a limit of its run policy, "" if it has not. A backoff limit of 0
// is reached with the first failure, another one with as many.
func (p *pass) limit() string {
	j := &p.Job
	if j.BackoffLimit != nil && len(p.lost) == 0 {
		if n := j.failures(p.Pods); n > 0 && n >= *j.BackoffLimit {
			return p.backoffReached()
		}
	}
	if j.Deadline != nil {
		at := p.Status.Start.Add(*j.Deadline)
		if !p.Now.Before(at) {
			return p.deadlineReached()
		}
		p.again(at)
	}
	return ""
}

func (p *pass) backoffReached() string {
	if p.Job.Kind == TrainJob {
		return trainFailed(p.Job.Name)
	}
	return fmt.Sprintf("Job %s has failed because it has reached the specified backoff limit", p.Job.Name)
}

func (p *pass) deadlineReached() string {
	if p.Job.Kind == TrainJob {
		return trainDeadline
	}
	return fmt.Sprintf("Job %s has failed because it was active longer than specified deadline", p.Job.Name)
}

// overLimit reports whether the job has failed because it reached a limit: all its pods are
// deleted then, whatever cleanPodPolicy says. A TrainJob keeps pods that have failed at its backoff limit.
func (p *pass) overLimit() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == ConditionFailed && c.True && (c.Message == p.backoffReached() && p.Job.Kind != TrainJob || c.Message == p.deadlineReached()) {
			return true
		}
	}
	return false
}
