package training

import (
	"cmp"
	"fmt"
)

// count sets the counts of pods in the status. A pod that was evicted or is being
// deleted counts as none: upstream counts it as failed, which ends jobs that are
// only moved.
func (p *pass) count() {
	counts := map[string]ReplicaStatus{}
	for _, r := range p.Job.Replicas {
		counts[r.Type] = ReplicaStatus{}
	}
	for i := range p.Pods {
		pod := &p.Pods[i]
		c, ok := counts[pod.Type]
		switch {
		case !ok:
			continue
		case pod.active() && pod.Round >= p.Round:
			c.Active++
		case pod.succeeded():
			c.Succeeded++
		case pod.failed():
			c.Failed++
		case p.Job.Kind == TrainJob && pod.Phase == Pending && !pod.Deleting && pod.Round >= p.Round:
			c.Pending++
		}
		counts[pod.Type] = c
	}
	p.exits(counts)
	p.Status.Replicas = counts
}

// exits adds an event for each program that has ended since the last pass, if the status shows it.
func (p *pass) exits(counts map[string]ReplicaStatus) {
	for i := range p.Pods {
		pod := &p.Pods[i]
		was, is := p.Job.Status.Replicas[pod.Type], counts[pod.Type]
		if pod.Exit != nil && was.Succeeded+was.Failed < is.Succeeded+is.Failed {
			p.Events = append(p.Events, Event{Reason: "ExitedWithCode", Message: fmt.Sprintf("Pod: %s.%s exited with code %d", p.Job.Namespace, pod.Name, *pod.Exit)})
		}
	}
}

// outcome sets Running or Succeeded. A job with a Chief or Master does what that does. Without
// one, a TFJob succeeds with its first worker, or with all of them under AllWorkers; a TrainJob succeeds with all pods, and a
// PyTorchJob with all workers, or with any worker if it is elastic.
func (p *pass) outcome() {
	j := &p.Job
	decides := cmp.Or(j.Leader(), Worker)
	if j.Kind == TrainJob {
		decides = Node
	}
	r := j.Replica(decides)
	if r == nil {
		return
	}
	c := p.Status.Replicas[decides]
	done := c.Succeeded >= r.Count
	if decides == Worker {
		done = done || j.Elastic != nil && c.Succeeded > 0 || j.Kind == TFJob && !j.AllWorkers && p.firstSucceeded()
	}
	switch {
	case done:
		p.end(ConditionSucceeded, p.text("%s %s successfully completed.", "%s %s is successfully completed."))
	case c.Active > 0:
		p.Status.set(Condition{Type: ConditionRunning, True: true, Reason: p.reason(ConditionRunning), Message: p.text("%s %s is running.", "%s %s is running.")}, p.Now)
	}
}

// text returns the sentence for the job's full name, or the one for its name that upstream has for
// PyTorchJobs with a Master.
func (p *pass) text(full, name string) string {
	if p.Job.Kind == TrainJob {
		return trainCompleted
	}
	if p.Job.Kind == PyTorchJob && p.Job.Leader() != "" {
		return fmt.Sprintf(name, p.Job.Kind, p.Job.Name)
	}
	return fmt.Sprintf(full, p.Job.Kind, p.full())
}

// firstSucceeded reports whether the first worker has ended with exit code 0.
func (p *pass) firstSucceeded() bool {
	for i := range p.Pods {
		pod := &p.Pods[i]
		if pod.Member == (Member{Worker, 0}) && pod.succeeded() && (pod.Exit == nil || *pod.Exit == 0) {
			return true
		}
	}
	return false
}

// end ends the job with a condition.
func (p *pass) end(condition, message string) {
	if p.Status.End.IsZero() {
		p.Status.End = p.Now
	}
	reason := p.reason(condition)
	if message == trainDeadline {
		reason = reasonDeadline
	}
	p.Events = append(p.Events, Event{Reason: reason, Message: message})
	p.Status.set(Condition{Type: condition, True: true, Reason: reason, Message: message}, p.Now)
	p.kept()
}

// fail ends the job as failed.
func (p *pass) fail(message string) { p.end(ConditionFailed, message) }
