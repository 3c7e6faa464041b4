package serving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// eventBackedOut is the reason of an event about a canary that was backed out.
const eventBackedOut = rules.ReasonBackedOut

// shownEvery is how often figures of a canary in the status are renewed at most.
const shownEvery = 10 * time.Second

// backedOut is a back-out that the cache may not have yet.
type backedOut struct {
	name string // of the revision
	why  *rules.BackOut
}

// shown are the figures of a canary in the status.
type shown struct {
	at    time.Time
	split *rules.Split
}

// all are the pods of the service, with those of a canary.
func (p *pass) all() []*corev1.Pod { return slices.Concat(p.pods, p.canaries) }

// findCanary decides whether the newest revision is a canary, and returns the service as the other replicas have it, with its runtime. The service is
// nil if it cannot be made.
func (p *pass) findCanary(ctx context.Context) (*objects.Written, *objects.Runtime, error) {
	if p.mem.backedOut.name != p.revision() {
		p.mem.backedOut = backedOut{}
	}
	stable, ok := rules.Stable(&p.written.Service, p.revisions, p.revision())
	if !ok {
		p.mem.shown, p.mem.record = shown{}, nil
		return p.written, p.runtime, nil
	}
	if r := p.mem.record; r == nil || r.Name != stable.Name {
		r = &appsv1.ControllerRevision{}
		if err := p.live.Get(ctx, client.ObjectKey{Namespace: p.object.Namespace, Name: stable.Name}, r); err != nil {
			return nil, nil, fmt.Errorf("read the revision that goes on answering: %w", err)
		}
		p.mem.record = r
	}
	main, fault, err := p.written.At(p.mem.record)
	if err != nil {
		return nil, nil, err
	}
	var by *objects.Runtime
	if fault == nil {
		if err := p.readCredentials(ctx, main); err != nil {
			return nil, nil, err
		}
		by, fault = objects.Choose(main, p.runtimes)
	}
	if fault != nil {
		p.refused = "the revision before cannot be made again: " + fault.Message
		return nil, nil, nil
	}
	p.beside = stable
	p.canary = &rules.CanarySeen{Percent: *p.written.Service.Canary}
	if p.o.Traffic == nil || p.o.behind != nil && !p.behind {
		p.canary.Blocked = "requests are not divided here; `berth activator` divides them"
	}
	return main, by, p.judge(ctx)
}

// judge decides which share the canary gets.
func (p *pass) judge(ctx context.Context) error {
	c := p.canary
	i := slices.IndexFunc(p.revisions, func(r rules.Revision) bool { return r.Name == p.revision() })
	if i < 0 {
		return fmt.Errorf("revision %s is not kept", p.revision())
	}
	r := &p.revisions[i]
	if r.BackedOut == nil {
		r.BackedOut = p.mem.backedOut.why
	}
	if r.BackedOut != nil && r.BackedOut.Percent != c.Percent { // it gets another try
		if err := p.patchRevision(ctx, r.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.AnnotationBackedOut)); err != nil {
			return err
		}
		r.BackedOut, p.mem.backedOut = nil, backedOut{}
	}
	if c.Effective = r.Effective(c.Percent); c.Effective < c.Percent {
		c.BackedOut = r.BackedOut.Why
	}
	t := p.traffic
	if t == nil || t.Split == nil || t.Split.Revision != p.newest.Revision || t.Split.Percent != c.Effective {
		return nil
	}
	if c.Split = t.Split; c.Effective == 0 || t.Partial {
		return nil
	}
	why := t.Split.Judge(p.written.Service.CanaryLimits)
	if why == "" {
		return nil
	}
	out := &rules.BackOut{Percent: c.Percent, Why: why}
	if err := p.patchRevision(ctx, r.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationBackedOut, objects.BackOutText(out))); err != nil {
		return err
	}
	r.BackedOut, p.mem.backedOut = out, backedOut{r.Name, out}
	c.Effective, c.BackedOut = 0, why
	p.events.Event(p.regarding(), corev1.EventTypeWarning, eventBackedOut, fmt.Sprintf("revision %s gets no more requests: %s", r.Name, why))
	return nil
}

// share is the share of the requests that goes to the canary now, in percent: none while pods of an earlier one are there, for which its
// answers would be taken.
func (p *pass) share() int {
	if p.earlier || p.canary.Blocked != "" {
		return 0
	}
	for _, pod := range p.canaries {
		if revisionOf(pod) != p.newest.Revision {
			return 0
		}
	}
	return p.canary.Effective
}

// writeCanary brings the objects of the canary to what they should be, beside so many replicas of the revision before.
func (p *pass) writeCanary(ctx context.Context, replicas int) error {
	if p.canary == nil {
		return p.drop(ctx, objects.CanaryName(p.object.Name), objects.IsCanary)
	}
	if p.canary.Blocked != "" && len(p.canaries) == 0 {
		return nil
	}
	p.canary.Wanted = rules.CanaryReplicas(replicas, p.canary.Effective)
	made := p.written.Canary(p.newest)
	if err := errors.Join(made.Seal(p.canary.Wanted), made.SealServices()); err != nil {
		return err
	}
	if p.canary.Effective > 0 && p.canary.Wanted > 0 {
		p.later(trafficAgain) // its answers are judged
	} else if s := p.canary.Split; s != nil && p.canary.Wanted > 0 {
		p.later(shownEvery)
	}
	var err error
	p.canary.Waits, err = p.apart(func() error {
		if err := p.bring(ctx, made.Services[0], &corev1.Service{}); err != nil {
			return err
		}
		return p.bring(ctx, made.Deployment, &appsv1.Deployment{})
	})
	return err
}

// drop removes the Deployment and the Service of a name, which a component had that the service no longer has. ours tells its labels.
func (p *pass) drop(ctx context.Context, name string, ours func(map[string]string) bool) error {
	key := client.ObjectKey{Namespace: p.object.Namespace, Name: name}
	for kind, o := range map[string]client.Object{"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}} {
		err := p.children.Get(ctx, key, o)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("read %s %s: %w", kind, key.Name, err)
		case err != nil || !metav1.IsControlledBy(o, p.object) || !ours(o.GetLabels()) || o.GetDeletionTimestamp() != nil:
			continue
		}
		delete(p.mem.marks, kind+"/"+key.Name)
		uid := o.GetUID()
		err = p.client.Delete(ctx, o, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove %s %s: %w", kind, key.Name, err)
		}
	}
	return nil
}

// seeCanary fills in what there is of the replicas of the canary.
func (p *pass) seeCanary(ctx context.Context) {
	c := p.canary
	if c == nil {
		return
	}
	d := &appsv1.Deployment{}
	if p.children.Get(ctx, client.ObjectKey{Namespace: p.object.Namespace, Name: objects.CanaryName(p.object.Name)}, d) != nil {
		d = nil // or it cannot be read now, and has nothing to say
	}
	if c.Waits == "" {
		c.Waits = waiting(p.canaries, d, p.newest.Revision)
	}
	for _, pod := range p.canaries {
		switch {
		case revisionOf(pod) != p.newest.Revision:
		case condition(pod, corev1.PodReady).Status == corev1.ConditionTrue:
			c.Ready++
		case pod.Spec.NodeName != "":
			if _, fault := p.starting(ctx, pod, p.newest); fault != nil && c.Fault == nil {
				c.Fault = fault
			}
		}
	}
}

// shares is how requests are divided, for the status. Its figures are renewed now and then.
func (p *pass) shares() []kserve.Traffic {
	c := p.canary
	if c == nil {
		return nil
	}
	if s := &p.mem.shown; s.split == nil || p.now().Sub(s.at) >= shownEvery {
		s.at, s.split = p.now(), c.Split
	}
	percent := c.Traffic()
	newest := kserve.Traffic{RevisionName: p.revision(), LatestRevision: true, Percent: percent, Tag: kserve.TagLatest}
	before := kserve.Traffic{RevisionName: p.beside.Name, Percent: rules.Whole - percent, Tag: kserve.TagPrevious}
	if s := p.mem.shown.split; s != nil {
		fill := func(t *kserve.Traffic, o *rules.Outcomes) {
			if t.Answers, t.Errors = o.Answers, o.Errors; o.Slow() > 0 {
				t.P95 = o.Slow().String()
			}
		}
		fill(&newest, &s.Canary)
		fill(&before, &s.Stable)
	}
	return []kserve.Traffic{newest, before}
}
