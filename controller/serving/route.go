package serving

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
)

// How long until the way from outside to a service is looked at again, as it is not watched.
const (
	routeAgain  = 10 * time.Minute // while it is as it should be
	routeSoon   = 10 * time.Second // while its gateway has not taken it
	noKindAgain = time.Minute      // while the cluster does not serve its kind
)

// routed is what is known of the way from outside to a service.
type routed struct {
	mark string    // of the object as it should be; "" is that there should be none
	next time.Time // look
	why  string    // it does not lead to the service; "" is that it does
}

// route brings the object by which the service is reached from outside to what it should be. It changes none that is not the service's.
func (p *pass) route(ctx context.Context) error {
	out := &p.o.Outside
	if out.Way == "" || p.made == nil {
		return nil
	}
	mark, want := "", map[string]any(nil)
	if !p.written.Hidden() {
		var why string
		if want, why = p.written.Route(out); why != "" {
			p.mem.route = routed{why: why}
			return nil
		}
		mark = (&unstructured.Unstructured{Object: want}).GetAnnotations()[api.AnnotationServingSpec]
	}
	now := p.now()
	if r := &p.mem.route; r.mark == mark && now.Before(r.next) {
		p.later(r.next.Sub(now))
		return nil
	}
	why, again, err := p.putRoute(ctx, want)
	if err != nil {
		return fmt.Errorf("write %s %s: %w", out.Kind().Kind, p.object.Name, err)
	}
	p.mem.route = routed{mark, now.Add(again), why}
	p.later(again)
	return nil
}

// putRoute reads the object, and writes or removes it if it is another one than wanted; nil is none. It returns why it does not lead to
// the service, and when to look again.
func (p *pass) putRoute(ctx context.Context, want map[string]any) (why string, again time.Duration, err error) {
	out := &p.o.Outside
	kind := out.Kind()
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(kind)
	err = p.live.Get(ctx, client.ObjectKeyFromObject(p.object), there)
	gone := apierrors.IsNotFound(err)
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Sprintf("the cluster does not serve %s of %s, which --serving-route asks for; install it, or use another way", kind.Kind, kind.GroupVersion()), noKindAgain, nil
	case err != nil && !gone:
		return "", 0, err
	case !gone && !metav1.IsControlledBy(there, p.object):
		if want == nil {
			return "", routeAgain, nil
		}
		return fmt.Sprintf("%s %s exists and does not belong to this service; rename the service, or delete that object (kubectl delete %s %s -n %s)", kind.Kind, p.object.Name, strings.ToLower(kind.Kind), p.object.Name, p.object.Namespace), refusedAgain, nil
	case want == nil && gone:
		return "", routeAgain, nil
	case want == nil:
		return "", routeAgain, client.IgnoreNotFound(p.client.Delete(ctx, there, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	u := &unstructured.Unstructured{Object: want}
	if gone || there.GetAnnotations()[api.AnnotationServingSpec] != u.GetAnnotations()[api.AnnotationServingSpec] || !equality.Semantic.DeepDerivative(want["spec"], there.Object["spec"]) {
		why, err = p.apart(func() error { return p.apply(ctx, u, kind.Kind+"/"+u.GetName()) })
		if why != "" || err != nil {
			return why, refusedAgain, err
		}
		there = u
	}
	if ok, why := out.Accepted(there.Object); !ok {
		return why, routeSoon, nil
	}
	return "", routeAgain, nil
}
