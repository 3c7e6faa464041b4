package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
	policies "berth.dev/berth/scheduler/admission"
)

// guardName is the admission plugin's name to the API server.
const guardName = "BerthGuard"

// guard is an admission plugin of the API server in this process. It does what
// the policies of package scheduler/admission do in other clusters, in Go: there
// each evaluation copies the objects several times, which costs more than the
// scheduling does.
type guard struct {
	*admission.Handler
	// scheduler alone may write berth.dev/devices; "" is that nothing is guarded
	// or explained here.
	scheduler string
	// users says which user objects are created for; nil is that this is not written here.
	users *policies.Users
	// tolerate adds to new pods that request GPUs a toleration of the GPU taint.
	tolerate bool
	largest  *policies.LargestGPU
}

var (
	_ admission.ValidationInterface = &guard{}
	_ admission.MutationInterface   = &guard{}
)

func newGuard(scheduler string, tolerate bool) *guard {
	return &guard{
		Handler: admission.NewHandler(admission.Create, admission.Update), scheduler: scheduler, tolerate: tolerate, largest: policies.NewLargestGPU(),
	}
}

// register makes the plugin one of the API server's, the last in the order.
func (g *guard) register(o *genericoptions.AdmissionOptions) {
	o.Plugins.Register(guardName, func(io.Reader) (admission.Interface, error) { return g, nil })
	o.RecommendedPluginOrder = append(o.RecommendedPluginOrder, guardName)
}

// Admit implements admission.MutationInterface: it writes the user of an object, and
// tolerates the GPU taint, if it is to.
func (g *guard) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if w := objectWrite(a); w != nil && g.users != nil {
		g.users.Stamp(w)
	}
	pod, ok := newPod(a)
	if !ok || !g.tolerate || !asksForGPU(pod) {
		return nil
	}
	helper.AddOrUpdateTolerationInPod(pod, &core.Toleration{Key: api.ResourceGPU, Operator: core.TolerationOpExists, Effect: core.TaintEffectNoSchedule})
	return nil
}

// Validate implements admission.ValidationInterface.
func (g *guard) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if w := objectWrite(a); w != nil && g.users != nil && g.users.Refuses(w) {
		return admission.NewForbidden(a, errors.New(policies.UsersMessage))
	}
	if unequal(a) {
		warning.AddWarning(ctx, "", request.WarningUnequal)
	}
	if text := trap(a); text != "" {
		warning.AddWarning(ctx, "", text)
	}
	if g.scheduler == "" {
		return nil
	}
	if r := a.GetResource(); r.Group != "" || r.Resource != "pods" && r.Resource != "bindings" {
		return nil
	}
	before, after := devicesOf(a.GetOldObject()), devicesOf(a.GetObject())
	if _, binds := a.GetObject().(*core.Binding); before != after && !(binds && a.GetUserInfo().GetName() == g.scheduler) {
		return admission.NewForbidden(a, errors.New(policies.DevicesMessage))
	}
	pod, ok := newPod(a)
	if !ok || !unusual(pod) {
		return nil
	}
	return g.explain(ctx, a, pod)
}

// objectWrite is a write of an object, for package policies; nil if it has no metadata.
func objectWrite(a admission.Attributes) *policies.ObjectWrite {
	now, err := meta.Accessor(a.GetObject())
	if err != nil {
		return nil
	}
	w := &policies.ObjectWrite{By: a.GetUserInfo().GetName(), Resource: a.GetResource().GroupResource(), Subresource: a.GetSubresource(), Now: now}
	if a.GetOperation() != admission.Update {
		return w
	}
	if w.Before, err = meta.Accessor(a.GetOldObject()); err != nil {
		return nil
	}
	return w
}

// explain refuses a new pod whose request for GPUs nothing can meet, and warns of
// one that may not be as it reads.
func (g *guard) explain(ctx context.Context, a admission.Attributes, pod *core.Pod) error {
	var out v1.Pod
	if err := corev1.Convert_core_Pod_To_v1_Pod(pod.DeepCopy(), &out, nil); err != nil {
		return fmt.Errorf("read the pod: %w", err)
	}
	err := request.Check(&out)
	if err == nil {
		err = request.CheckLimit(&out, g.largest.MiB())
	}
	if err == nil {
		for _, text := range request.Warnings(&out) {
			warning.AddWarning(ctx, "", text)
		}
		return nil
	}
	refusal := admission.NewForbidden(a, err)
	if status, ok := errors.AsType[*apierrors.StatusError](refusal); ok {
		status.ErrStatus.Reason, status.ErrStatus.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
		// Of what is invalid, kubectl create tells the causes alone.
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Message: err.Error()})
	}
	return refusal
}

// newPod returns the pod that is created, if a is that.
func newPod(a admission.Attributes) (*core.Pod, bool) {
	if a.GetOperation() != admission.Create || a.GetSubresource() != "" || a.GetResource().Resource != "pods" {
		return nil, false
	}
	pod, ok := a.GetObject().(*core.Pod)
	return pod, ok
}

// devicesOf is the annotation berth.dev/devices of an object, which may be nil.
func devicesOf(object any) string {
	switch o := object.(type) {
	case *core.Pod:
		return o.Annotations[api.AnnotationDevices]
	case *core.Binding:
		return o.Annotations[api.AnnotationDevices]
	}
	return ""
}

// unusual reports whether a pod asks for GPUs in a way that there is something to say
// about: other than nvidia.com/gpu alone.
func unusual(pod *core.Pod) bool {
	_, saves := pod.Annotations[api.AnnotationCheckpoint]
	_, ends := pod.Annotations[api.AnnotationMaxRunTime]
	if saves || ends || seesDevices(pod) {
		return true
	}
	return annotated(pod) || anyResource(pod, func(name string) bool { return name != api.ResourceGPU && request.IsGPU(name) })
}

// seesDevices reports whether a container of a pod has NVIDIA's variable for the GPUs that it sees.
func seesDevices(pod *core.Pod) bool {
	for i := range pod.Spec.Containers {
		for _, e := range pod.Spec.Containers[i].Env {
			if e.Name == request.VisibleVariable && request.ShowsDevices(e.Value) {
				return true
			}
		}
	}
	return false
}

// asksForGPU reports whether a pod asks for GPUs in any form.
func asksForGPU(pod *core.Pod) bool {
	return pod.Annotations[api.AnnotationKAIFraction] != "" || pod.Annotations[api.AnnotationKAIMemory] != "" || anyResource(pod, request.IsGPU)
}

// annotated reports whether a pod has one of KAI's annotations.
func annotated(pod *core.Pod) bool {
	if len(pod.Annotations) == 0 {
		return false
	}
	for _, name := range []string{api.AnnotationKAIFraction, api.AnnotationKAIMemory, api.AnnotationKAIDevices} {
		if _, ok := pod.Annotations[name]; ok {
			return true
		}
	}
	return false
}

// anyResource reports whether a container of a pod has a limit that yes says yes to.
// The API server wants limits of whatever is not CPU, memory or storage.
func anyResource(pod *core.Pod, yes func(name string) bool) bool {
	for _, list := range [][]core.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for name := range list[i].Resources.Limits {
				if yes(string(name)) {
					return true
				}
			}
		}
	}
	return false
}

// follow informs the guard of nodes, by the scheduler's informer.
func (g *guard) follow(nodes cache.SharedInformer) error {
	_, err := nodes.AddEventHandler(g.largest.Handler())
	return err
}

// guardDevices keeps committed devices to the scheduler. Where Berth's runs in
// this process, the guard does it, and the policies that do it elsewhere are only
// noted, so another scheduler learns of them. When the stock scheduler comes
// back they are bound: what was committed stays as it is.
func (p *plane) guardDevices(ctx context.Context, client kubernetes.Interface) error {
	if p.state.Scheduler == SchedulerBerth {
		return policies.ApplyUnbound(ctx, client, schedulerUser)
	}
	user, err := policies.Owner(ctx, client)
	if err != nil || user != schedulerUser {
		return err
	}
	return policies.Apply(ctx, client, user, false)
}
