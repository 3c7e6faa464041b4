package training

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Observed is what a plan is made of.
type Observed struct {
	Job      Job
	Pods     []Pod     // that the job controls
	Gone     []Pod     // that were seen before, had a node, and do not exist any longer, although the plan was to keep them
	Stopped  []Pod     // that have ended after they were asked to stop, each once
	Services []Service // that the job controls
	Queued   Queued
	// InTurn is that the job is suspended until the scheduler resumes it in its turn.
	InTurn bool
	Now    time.Time
}

// Plan is what a job needs next. It is carried out in the order of its fields: the status is
// written before pods of a job that has ended are deleted, so a crash between does not start them again.
type Plan struct {
	Restarts       Restarts // to write if they differ from the job's
	Round          int      // the same
	Status         Status   // to write if it differs from the job's
	DeletePods     []Pod
	ForgetPods     []Pod // to delete without waiting for their nodes, which do not respond
	DeleteServices []Service
	Autoscale      bool // a HorizontalPodAutoscaler is there; false is that there is none
	CreateServices []Member
	CreatePods     []Member
	DeleteJob      bool
	Events         []Event
	Again          time.Time // when to plan again if nothing happens; zero is never
}

// Event is an event about the job.
type Event struct {
	Warning         bool
	Reason, Message string
}

// Next returns what a job needs next. It is a function of its input: the same
// observation leads to the same plan, and once a plan is carried out and observed, the next one
// changes nothing.
func Next(o Observed) Plan {
	p := pass{Observed: o, Plan: Plan{Status: o.Job.Status.clone(), Restarts: o.Job.Restarts, Round: o.Job.Round}}
	if !o.Job.Ours() {
		return p.Plan
	}
	p.Status.set(Condition{Type: ConditionCreated, True: true, Reason: p.reason(ConditionCreated), Message: string(o.Job.Kind) + " " + o.Job.Name + " is created."}, o.Now)
	switch {
	case p.Status.Ended():
		p.afterEnd()
	case o.Job.Suspend:
		p.stopped()
		p.suspend()
	default:
		p.stopped()
		p.run()
	}
	if p.Status.Ended() {
		p.Status.drop(ConditionQueued) // what has ended has upstream's conditions alone
	} else {
		p.Status.queue(p.waits(), o.Now)
	}
	p.Autoscale = o.Job.Elastic != nil && o.Job.Elastic.Metrics && !o.Job.Suspend && !p.Status.Ended()
	return p.Plan
}

// pass is one call of Next.
type pass struct {
	Observed
	Plan
	lost []*Pod // without which the others cannot go on
}

// waits returns what the condition GPUQueued says.
func (p *pass) waits() Queued {
	switch {
	case p.Job.Suspend && !p.InTurn:
		return Queued{Reason: "NotWaiting"}
	case p.Job.Suspend:
		return Queued{true, "SuspendedUntilTurn", fmt.Sprintf("suspended until its turn; berth why %s/%s -n %s shows its place in line", strings.ToLower(string(p.Job.Kind)), p.Job.Name, p.Job.Namespace)}
	}
	return p.Queued
}

// reason returns the reason of a condition, such as TFJobRunning, or of a TrainJob as JobSet and Trainer have it.
func (p *pass) reason(word string) string {
	if p.Job.Kind == TrainJob {
		return trainReason(word)
	}
	return string(p.Job.Kind) + word
}

// full returns the job's namespace and name.
func (p *pass) full() string { return p.Job.Namespace + "/" + p.Job.Name }

// event adds an event.
func (p *pass) event(warning bool, word, message string) {
	p.Events = append(p.Events, Event{warning, p.reason(word), message})
}

// run plans for a job that is to run.
func (p *pass) run() {
	p.resume()
	if p.Status.Start.IsZero() {
		p.Status.Start = p.Now
	}
	p.count()
	p.lost = p.loses()
	if message := p.limit(); message != "" {
		p.fail(message)
		return
	}
	p.outcome()
	if !p.Status.Ended() && !p.move() {
		p.failures()
	}
	if p.Status.Ended() {
		p.DeletePods, p.Restarts, p.Round = nil, p.Job.Restarts, p.Job.Round
		return
	}
	p.forget()
	p.members()
}

// again plans at a time, if that is sooner than what was planned.
func (p *pass) again(at time.Time) {
	if p.Again.IsZero() || at.Before(p.Again) {
		p.Again = at
	}
}

// members plans which pods and Services are to be created, and deletes those of members
// that the job has no longer.
func (p *pass) members() {
	pods, services := map[Member]bool{}, map[Member]bool{}
	for _, pod := range p.inOrder() {
		switch {
		case pods[pod.Member] && !pod.Deleting, !p.Job.has(pod.Member) && !pod.Deleting:
			p.DeletePods = append(p.DeletePods, pod) // a second one, or one too many
		default:
			pods[pod.Member] = true
		}
	}
	wanted := p.Job.services()
	for _, s := range p.Services {
		if !slices.Contains(wanted, s.Member) {
			p.DeleteServices = append(p.DeleteServices, s)
		}
		services[s.Member] = true
	}
	p.CreateServices = slices.DeleteFunc(wanted, func(m Member) bool { return services[m] })
	if !p.leaving() {
		p.CreatePods = p.Job.missing(func(m Member) bool { return pods[m] })
	}
}

// inOrder returns the pods in the order in which they keep a member's place: a pod that
// is not being deleted before one that is, then the older one.
func (p *pass) inOrder() []Pod {
	order := slices.Clone(p.Pods)
	slices.SortStableFunc(order, func(a, b Pod) int {
		if a.Deleting != b.Deleting {
			if b.Deleting {
				return -1
			}
			return 1
		}
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return order
}
