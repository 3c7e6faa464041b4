package serving

import (
	"cmp"
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// eventRevision is the reason of an event about a revision that cannot be kept.
const eventRevision = "RevisionNotKept"

// revision is the name of the newest revision; "" is that there is none, as nothing was made.
func (p *pass) revision() string {
	if p.newest == nil {
		return ""
	}
	return objects.RevisionName(p.object.Name, p.newest.Revision)
}

// readRevisions reads which revisions are kept.
func (p *pass) readRevisions(ctx context.Context) error {
	var list appsv1.ControllerRevisionList
	if err := p.children.List(ctx, &list, client.InNamespace(p.object.Namespace), client.MatchingFields{byService: p.object.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the revisions of the service: %w", err)
	}
	pods := map[string]int{}
	for _, pod := range p.all() {
		pods[objects.RevisionName(p.object.Name, revisionOf(pod))]++
	}
	for i := range list.Items {
		if one := &list.Items[i]; metav1.IsControlledBy(one, p.object) && one.DeletionTimestamp == nil {
			r := objects.RevisionOf(one)
			r.Pods = pods[r.Name]
			p.revisions = append(p.revisions, r)
		}
	}
	return nil
}

// record keeps the newest revision before any of its pods is made, and removes those that are too many. A service runs even if its
// revisions cannot be kept.
func (p *pass) record(ctx context.Context) error {
	name := p.revision()
	number, remove := rules.Keep(p.revisions, name)
	there := false
	for i := range p.revisions {
		r := &p.revisions[i]
		if r.Name != name {
			continue
		}
		if there = true; r.Number != number {
			if err := p.patchRevision(ctx, name, fmt.Sprintf(`{"revision":%d,"metadata":{"annotations":{%q:null}}}`, number, api.AnnotationBackedOut)); err != nil {
				return err
			}
			r.Number, r.BackedOut = number, nil
		}
	}
	if !there {
		one, err := p.written.Record(p.newest.Revision, number)
		if err != nil {
			return err
		}
		if err := p.kept(p.client.Create(ctx, one, client.FieldOwner(Name))); err != nil {
			return fmt.Errorf("keep revision %s: %w", name, err)
		}
		p.revisions = append(p.revisions, rules.Revision{Name: name, Number: number})
	}
	for _, name := range remove {
		if err := p.client.Delete(ctx, p.atRevision(name)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove revision %s: %w", name, err)
		}
	}
	return nil
}

// kept judges what the API server says to a new revision: a refusal is reported in an event, once.
func (p *pass) kept(err error) error {
	switch {
	case err == nil:
		p.mem.unkept = ""
	case apierrors.IsAlreadyExists(err): // the cache does not have it yet, or it is of an earlier service of the name, and goes
		p.later(refusedAgain / 10)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		p.later(refusedAgain)
		if text := err.Error(); text != p.mem.unkept {
			p.mem.unkept = text
			p.events.Event(p.regarding(), corev1.EventTypeWarning, eventRevision, "the service runs, but there is no way back to this revision: "+text)
		}
	default:
		return err
	}
	return nil
}

// atRevision is a revision by its name.
func (p *pass) atRevision(name string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: p.object.Namespace, Name: name}}
}

// patchRevision changes what is kept of a revision.
func (p *pass) patchRevision(ctx context.Context, name, change string) error {
	if err := p.patch(ctx, p.atRevision(name), change); err != nil {
		return fmt.Errorf("write revision %s: %w", name, err)
	}
	return nil
}

// complete marks the newest revision when a rollout to it is complete.
func (p *pass) complete(ctx context.Context, seen *rules.Seen) error {
	name := p.revision()
	if rolled := rules.RolledOut(p.revisions); !seen.Complete() || p.canary != nil || len(rolled) > 0 && rolled[0].Name == name {
		return nil
	}
	for i := range p.revisions {
		if r := &p.revisions[i]; r.Name == name {
			r.RolledOut = p.now().UTC()
			return p.patchRevision(ctx, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationRolledOut, r.RolledOut.Format(time.RFC3339Nano)))
		}
	}
	return nil
}

// readyRevision is the newest revision of which a replica answers, or else the one of which one did.
func (p *pass) readyRevision(was string) string {
	ready := map[string]bool{}
	for _, pod := range p.all() {
		if condition(pod, corev1.PodReady).Status == corev1.ConditionTrue {
			ready[objects.RevisionName(p.object.Name, revisionOf(pod))] = true
		}
	}
	best := rules.Revision{}
	for _, r := range p.revisions {
		if ready[r.Name] && r.Number > best.Number {
			best = r
		}
	}
	return cmp.Or(best.Name, was)
}
