package queue

import (
	"context"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/kube/queues"
)

// Why pods get no default PriorityClasses.
const (
	noPolicies = "pods get no class by default: the API server serves no MutatingAdmissionPolicies, which Kubernetes has from 1.36 on"
	noRights   = "pods get no class by default: Berth's controllers may not apply the MutatingAdmissionPolicy " + queues.DefaultClassesName +
		"; grant them the ClusterRole berth-controller-default-classes in deploy/controller.yaml"
)

// given is the policy that gives pods their default PriorityClasses, as it was last applied.
type given struct {
	known  bool // else it is not known what there is
	policy *admissionv1.MutatingAdmissionPolicy
	again  time.Time // when to try again what failed; zero is when something changes
}

// setClass takes a PriorityClass as it is now; nil is that it is gone.
func (t *tally) setClass(name string, c *schedulingv1.PriorityClass) {
	if t.stale = true; c == nil {
		delete(t.classes, name)
	} else {
		t.classes[name] = c
	}
}

// giveClasses has the API server give new pods the classes that Queues name: it applies the policy
// for it where that has changed, and deletes it where no Queue names one. It returns how long it may
// be until the next time; 0 is until something changes.
func (c *controller) giveClasses(ctx context.Context, now time.Time) time.Duration {
	var want *admissionv1.MutatingAdmissionPolicy
	var binding *admissionv1.MutatingAdmissionPolicyBinding
	if len(c.tally.defaults) > 0 {
		want, binding = c.tally.defaults.Policy(c.tally.members)
	}
	g := &c.given
	if g.known && equality.Semantic.DeepEqual(g.policy, want) {
		return 0
	}
	if now.Before(g.again) {
		return g.again.Sub(now)
	}
	var err error
	if want == nil {
		err = c.deletePolicy(ctx)
	} else if err = c.apply(ctx, want); err == nil {
		err = c.apply(ctx, binding)
	}
	problem, missing := "", meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
	switch {
	case err == nil, want == nil && (missing || apierrors.IsForbidden(err)):
	case missing:
		problem = noPolicies
	case apierrors.IsForbidden(err):
		problem = noRights
	default:
		problem = "pods get no class by default yet: " + err.Error()
		klog.ErrorS(err, "The admission policy for default PriorityClasses could not be applied", "policy", queues.DefaultClassesName)
	}
	if c.tally.unassigned != problem {
		c.tally.unassigned = problem
		c.poke() // the status of Queues says it
	}
	if problem == "" {
		*g = given{known: true, policy: want}
		return 0
	}
	g.again = now.Add(writeAgain)
	return writeAgain
}

// versions are those in which admission policies that change objects are served, the newest first.
var versions = []schema.GroupVersion{admissionv1.SchemeGroupVersion, admissionv1beta1.SchemeGroupVersion}

// apply writes a policy, or its binding, in the newest version that the API server has. What others
// have added to it stays.
func (c *controller) apply(ctx context.Context, o client.Object) (err error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	for _, version := range versions {
		u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(fields)}
		u.SetAPIVersion(version.String())
		raw, marshalErr := u.MarshalJSON()
		if marshalErr != nil {
			return marshalErr
		}
		if err = c.client.Patch(ctx, u, client.RawPatch(types.ApplyPatchType, raw), client.FieldOwner(Name), client.ForceOwnership); !meta.IsNoMatchError(err) {
			return err
		}
	}
	return err
}

// deletePolicy deletes the binding, and then the policy.
func (c *controller) deletePolicy(ctx context.Context) (err error) {
	for _, version := range versions {
		for _, kind := range []string{"MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"} {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(version.WithKind(kind))
			u.SetName(queues.DefaultClassesName)
			if err = client.IgnoreNotFound(c.client.Delete(ctx, u)); err != nil {
				break
			}
		}
		if !meta.IsNoMatchError(err) {
			return err
		}
	}
	return err
}
