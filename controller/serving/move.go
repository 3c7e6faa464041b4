package serving

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/api"
	rules "berth.dev/berth/core/serving"
	"berth.dev/berth/kube/request"
	objects "berth.dev/berth/kube/serving"
)

// eventMoves is the reason of an event about replicas that leave their nodes.
const eventMoves = "Moving"

// moving is how many replicas of a Deployment are there only while others leave their nodes.
func moving(d *appsv1.Deployment) int {
	n, _ := strconv.Atoi(d.Annotations[api.AnnotationMoving])
	return max(0, n)
}

// readLeaving reads why pods of the service leave their nodes.
func (p *pass) readLeaving(ctx context.Context) error {
	p.leave = map[types.UID]string{}
	for _, pod := range p.pods {
		if pod.Spec.NodeName == "" {
			continue
		}
		n := &corev1.Node{}
		switch err := p.children.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, n); {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("read node %s: %w", pod.Spec.NodeName, err)
		case err == nil:
			if why := objects.Leaves(n, pod); why != "" {
				p.leave[pod.UID] = why
			}
		}
	}
	return nil
}

// replicas are the pods of the service as core sees them.
func (p *pass) replicas() (out []rules.Replica) {
	for _, pod := range p.pods {
		out = append(out, rules.Replica{Ready: condition(pod, corev1.PodReady).Status == corev1.ConditionTrue, Leaves: p.leave[pod.UID] != ""})
	}
	return out
}

// rank has pods that leave their nodes ended before others when there are fewer replicas, and those that stay after all no longer.
func (p *pass) rank(ctx context.Context) error {
	for _, pod := range p.pods {
		cost := ""
		switch first := pod.Annotations[corev1.PodDeletionCost] == objects.CostOfLeaving; {
		case p.leave[pod.UID] != "" && !first:
			cost = fmt.Sprintf("%q", objects.CostOfLeaving)
		case p.leave[pod.UID] == "" && first:
			cost = "null"
		default:
			continue
		}
		if err := p.annotate(ctx, pod, corev1.PodDeletionCost, cost); err != nil {
			return fmt.Errorf("mark pod %s, which leaves its node: %w", pod.Name, err)
		}
	}
	return nil
}

// leaves is why replicas leave their nodes, by the first of them; "" is that none does. It is said in an event, once.
func (p *pass) leaves() string {
	why := ""
	for _, pod := range p.pods {
		if why = p.leave[pod.UID]; why != "" {
			break
		}
	}
	if why != "" && why != p.mem.moves {
		p.events.Event(p.regarding(), corev1.EventTypeNormal, eventMoves, why+": its replicas end when others answer elsewhere")
	}
	p.mem.moves = why
	return why
}

// protect keeps replicas from being evicted all at once, and those that move from being evicted too early. Where a budget of the user's is
// about the pods, that one counts: two of them would forbid each eviction.
func (p *pass) protect(ctx context.Context, seen *rules.Seen) error {
	if p.made == nil {
		return nil
	}
	least, is := seen.Budget()
	var list policyv1.PodDisruptionBudgetList
	if err := p.children.List(ctx, &list, client.InNamespace(p.object.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list disruption budgets: %w", err)
	}
	var own *policyv1.PodDisruptionBudget
	for i := range list.Items {
		b := &list.Items[i]
		switch {
		case metav1.IsControlledBy(b, p.object):
			own = b
		case !request.Yields(b) && p.made.Covers(b):
			is = false
		}
	}
	if is {
		object, err := p.written.Budget(least)
		if err != nil {
			return err
		}
		return p.bring(ctx, object, &policyv1.PodDisruptionBudget{})
	}
	if own == nil || own.DeletionTimestamp != nil {
		return nil
	}
	delete(p.mem.marks, "PodDisruptionBudget/"+own.Name)
	gone := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: own.Namespace, Name: own.Name}}
	if err := p.client.Delete(ctx, gone); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove disruption budget %s: %w", own.Name, err)
	}
	return nil
}

// emptied passes on nodes that are to be emptied, or no longer.
func emptied() predicate.Funcs {
	bare := &corev1.Pod{}
	leaves := func(o client.Object) string {
		if n, ok := o.(*corev1.Node); ok {
			return objects.Leaves(n, bare)
		}
		return ""
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return leaves(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool { return leaves(e.ObjectOld) != leaves(e.ObjectNew) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// onNode requests a pass over each service that has pods on a node.
func (r *reconciler) onNode(ctx context.Context, o client.Object) (out []reconcile.Request) {
	var pods corev1.PodList
	if err := r.children.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has ended
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName == o.GetName() {
			out = append(out, ofChild(ctx, pod)...)
		}
	}
	return out
}

// besideBudget requests a pass over the service whose disruption budget an object is, or over each of its namespace.
func (r *reconciler) besideBudget(ctx context.Context, o client.Object) []reconcile.Request {
	if b, ok := o.(*policyv1.PodDisruptionBudget); ok && request.Yields(b) {
		return ofChild(ctx, b)
	}
	return r.services(ctx, client.InNamespace(o.GetNamespace()))
}
