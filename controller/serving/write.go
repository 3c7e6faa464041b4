package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// write brings the children to what they should be.
func (p *pass) write(ctx context.Context, replicas int) error {
	if err := p.plan(ctx); err != nil || p.made == nil {
		return err
	}
	if p.behind && (p.written.Service.Scale.Follows() || p.canary != nil || p.written.Service.Concurrency > 0) {
		p.made.Behind()
	}
	p.made.Bound(p.written.Service.Concurrency)
	if p.canary != nil {
		p.made.Split(p.newest.Revision, p.share())
	}
	extra := rules.Extra(replicas, p.replicas(), p.rolling())
	if err := p.rank(ctx); err != nil {
		return err
	}
	p.made.Move(extra)
	if err := errors.Join(p.made.Seal(replicas+extra), p.made.SealServices()); err != nil {
		return err
	}
	for _, service := range p.made.Services {
		if err := p.bring(ctx, service, &corev1.Service{}); err != nil {
			return err
		}
	}
	if err := p.bring(ctx, p.made.Deployment, &appsv1.Deployment{}); err != nil {
		return err
	}
	return errors.Join(p.writeTransformer(ctx, replicas), p.writeCanary(ctx, replicas))
}

// apart runs what writes an object that is not the predictor's, and returns why it cannot be written; "" is that it can.
func (p *pass) apart(write func() error) (string, error) {
	refused, taken := p.refused, p.taken
	p.refused, p.taken = "", ""
	err := write()
	why := cmp.Or(p.refused, p.taken)
	p.refused, p.taken = refused, taken
	return why, err
}

// plan builds the children: of the newest revision, and if that is a canary, of the one that it is beside.
func (p *pass) plan(ctx context.Context) error {
	rollout := p.written.Service.Rollout
	above, below := rules.Surge(rollout, false)
	var err error
	if p.newest, err = objects.Build(p.written, p.runtime, above, below); err != nil {
		return err
	}
	if err := p.record(ctx); err != nil {
		return err
	}
	main, by, err := p.findCanary(ctx)
	if err != nil || main == nil {
		return err
	}
	if p.made = p.newest; p.canary != nil {
		if p.made, err = objects.Build(main, by, above, below); err != nil {
			return err
		}
	}
	if a, b := rules.Surge(rollout, p.stands()); a != above || b != below {
		if p.made, err = objects.Build(main, by, a, b); err != nil {
			return err
		}
	}
	if p.canary == nil {
		p.newest = p.made
	}
	return nil
}

// stands reports whether a rollout, of the model or of the transformer, waits for something.
func (p *pass) stands() bool {
	t := p.made.Transformer
	return p.rolling() && p.waits(p.made.Revision) != "" || t != nil && p.front.rolls(t) && p.front.waits(t) != ""
}

// bring applies a child unless the one that is there has its mark. there is an empty object of its kind.
func (p *pass) bring(ctx context.Context, object map[string]any, there client.Object) error {
	u := &unstructured.Unstructured{Object: object}
	id := u.GetKind() + "/" + u.GetName()
	err := p.children.Get(ctx, client.ObjectKeyFromObject(u), there)
	if apierrors.IsNotFound(err) {
		// One that is not labeled is not in the cache, and so is one that was created just now.
		if err = p.live.Get(ctx, client.ObjectKeyFromObject(u), there); apierrors.IsNotFound(err) {
			return p.apply(ctx, u, id)
		}
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", id, err)
	}
	switch {
	case !metav1.IsControlledBy(there, p.object):
		if ref := metav1.GetControllerOfNoCopy(there); ref != nil && ref.Kind == kserve.Kind && ref.Name == p.object.Name {
			p.later(refusedAgain / 10) // of an earlier service of the name, which goes
			return nil
		}
		kind := strings.ToLower(u.GetKind())
		p.taken = fmt.Sprintf("%s %s exists and does not belong to this service; rename the service, or delete that object (kubectl delete %s %s -n %s)", u.GetKind(), u.GetName(), kind, u.GetName(), u.GetNamespace())
		p.later(refusedAgain)
		return nil
	case there.GetAnnotations()[api.AnnotationServingSpec] == u.GetAnnotations()[api.AnnotationServingSpec] && !p.drifted(there, u, id):
		return nil
	}
	return p.apply(ctx, u, id)
}

// drifted reports whether another client has changed a child since it was applied: while the process runs, its generation tells,
// and of replicas, which others scale, their number does.
func (p *pass) drifted(there client.Object, want *unstructured.Unstructured, id string) bool {
	switch there := there.(type) {
	case *corev1.Service:
		return !serves(there, want)
	case *policyv1.PodDisruptionBudget:
		was, known := p.mem.marks[id]
		return known && was != generation(there)
	}
	d, ok := there.(*appsv1.Deployment)
	if !ok {
		return false
	}
	n, _, _ := unstructured.NestedInt64(want.Object, "spec", "replicas")
	was, known := p.mem.marks[id]
	return d.Spec.Replicas == nil || int64(*d.Spec.Replicas) != n || known && was != generation(there)
}

// serves reports whether a Service selects the pods that it should, at the ports that it should.
func serves(has *corev1.Service, want *unstructured.Unstructured) bool {
	var w corev1.Service
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(want.Object, &w); err != nil {
		return false
	}
	return maps.Equal(w.Spec.Selector, has.Spec.Selector) && len(w.Spec.Ports) == len(has.Spec.Ports) && equality.Semantic.DeepDerivative(w.Spec.Ports, has.Spec.Ports)
}

func generation(o client.Object) string { return fmt.Sprint(o.GetUID(), "/", o.GetGeneration()) }

// apply writes a child.
func (p *pass) apply(ctx context.Context, u *unstructured.Unstructured, id string) error {
	err := p.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(Name), client.ForceOwnership)
	if err == nil {
		p.mem.marks[id] = generation(u)
		return nil
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		switch status.Status().Code {
		case http.StatusForbidden, http.StatusBadRequest, http.StatusUnprocessableEntity:
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return nil
			}
			p.refused = fmt.Sprintf("%s cannot be written: %s", id, status.Status().Message)
			p.later(refusedAgain)
			return nil
		case http.StatusConflict:
			p.later(refusedAgain / 10)
			return nil
		}
	}
	return fmt.Errorf("write %s: %w", id, err)
}

// annotate writes an annotation of a pod, whose value is JSON; null removes it. A pod that is gone needs none.
func (p *pass) annotate(ctx context.Context, pod *corev1.Pod, key, value string) error {
	at := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return p.patch(ctx, at, fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%s}}}`, pod.UID, key, value))
}

// patch merges a change into an object, unless that is gone.
func (p *pass) patch(ctx context.Context, at client.Object, change string) error {
	return client.IgnoreNotFound(p.client.Patch(ctx, at, client.RawPatch(types.MergePatchType, []byte(change)), client.FieldOwner(Name)))
}
