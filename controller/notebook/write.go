package notebook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	reasons "berth.dev/berth/core/explain"
	rules "berth.dev/berth/core/notebook"
	"berth.dev/berth/kube/explain"
)

const owner = client.FieldOwner(Name)

// createSet makes the StatefulSet. One that is there and is this notebook's, but
// not labeled so, is another controller's of the same contract: it is taken over.
func (p *pass) createSet(ctx context.Context) error {
	if err := p.remark(ctx); err != nil {
		return err
	}
	u := p.setObject(nil)
	err := p.client.Create(ctx, u, owner)
	switch {
	case err == nil:
		created.WithLabelValues(p.nb.Namespace).Inc()
		p.wrote(u)
		return nil
	case !apierrors.IsAlreadyExists(err):
		created.WithLabelValues(p.nb.Namespace).Inc()
		createFailed.WithLabelValues(p.nb.Namespace).Inc()
		return p.refused(err)
	}
	live := &appsv1.StatefulSet{}
	if err := p.reader.Get(ctx, client.ObjectKeyFromObject(p.nb), live); err != nil {
		return p.refused(err)
	}
	if !p.mine(live, "StatefulSet") || live.Labels[api.LabelNotebook] == p.nb.Name {
		return nil // if it is labeled, the cache is only late
	}
	p.set = live
	key, pod := client.ObjectKeyFromObject(p.nb), &corev1.Pod{}
	key.Name += "-0"
	if err := p.client.Get(ctx, key, pod); err == nil && metav1.IsControlledBy(pod, live) {
		p.pod = pod
	} else if client.IgnoreNotFound(err) != nil {
		return err
	}
	if _, err := p.build(); err != nil { // what runs there gets no token
		return err
	}
	return p.updateSet(ctx)
}

// updateSet writes the StatefulSet again, over the version that was read.
func (p *pass) updateSet(ctx context.Context) error {
	if p.set.Spec.Template.Annotations[api.AnnotationNotebookSpec] != p.made.want.Mark {
		if err := p.remark(ctx); err != nil {
			return err
		}
	}
	u := p.setObject(p.set)
	if err := p.client.Update(ctx, u, owner); err != nil {
		return p.refused(err)
	}
	p.wrote(u)
	return nil
}

// setObject is the StatefulSet to write, over another if there is one: of that the
// labels and annotations of others stay.
func (p *pass) setObject(over *appsv1.StatefulSet) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(p.made.set)}
	full := p.made.want.Full
	if over != nil {
		keepMeta(u, over)
		if pod := p.adopted(over); pod != "" {
			full += "/" + pod
		}
	}
	u.SetAnnotations(with(u.GetAnnotations(), api.AnnotationNotebookSpec, full))
	u.Object["spec"].(map[string]any)["replicas"] = int64(p.made.want.Replicas)
	return u
}

// adopted is the UID of a pod that another controller's StatefulSet made as this
// notebook says: it runs on when Berth takes over.
func (p *pass) adopted(over *appsv1.StatefulSet) string {
	s := p.setNow()
	switch {
	case s.Mark == p.made.want.Mark:
		return s.Adopted
	case s.Mark == "" && p.pod != nil && equality.Semantic.DeepDerivative(p.made.typed.Spec.Template.Spec, over.Spec.Template.Spec):
		return string(p.pod.UID)
	}
	return ""
}

func keepMeta(u *unstructured.Unstructured, over client.Object) {
	u.SetResourceVersion(over.GetResourceVersion())
	labels, notes := maps.Clone(over.GetLabels()), maps.Clone(over.GetAnnotations())
	for k, v := range u.GetLabels() {
		labels = with(labels, k, v)
	}
	for k, v := range u.GetAnnotations() {
		notes = with(notes, k, v)
	}
	u.SetLabels(labels)
	if notes != nil {
		u.SetAnnotations(notes)
	}
}

func with(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}

// wrote keeps the StatefulSet that the API server has now as what is there.
func (p *pass) wrote(u *unstructured.Unstructured) {
	was := p.set
	p.set = p.made.typed.DeepCopy()
	p.set.UID, p.set.Generation, p.set.Labels, p.set.Annotations = u.GetUID(), u.GetGeneration(), u.GetLabels(), u.GetAnnotations()
	if was != nil {
		p.set.Status = was.Status
	}
	replicas := p.made.want.Replicas
	p.set.Spec.Replicas = &replicas
	p.mem.set, p.mem.settled, p.mem.since = u.GetUID(), u.GetGeneration(), p.now()
}

// replace deletes the pod, if it is still the one that was read: its StatefulSet
// makes one as it is wanted now.
func (p *pass) replace(ctx context.Context) error {
	uid := p.pod.UID
	err := p.client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.pod.Namespace, Name: p.pod.Name}},
		client.Preconditions{UID: &uid})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		p.later(staleAgain)
		return nil
	}
	return err
}

// halt stops a notebook of which no pod can be made: nothing else of its
// StatefulSet is changed.
func (p *pass) halt(ctx context.Context) error {
	_, stopped := p.nb.Annotations[api.AnnotationStopped]
	if p.set == nil || !stopped || replicas(p.set) == 0 {
		if p.pod != nil {
			p.facts.Waits = p.facts.Invalid
		}
		return nil
	}
	return client.IgnoreNotFound(p.client.Patch(ctx, bare(p.set), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`)), owner))
}

// bare is a StatefulSet to send a patch to.
func bare(s *appsv1.StatefulSet) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
}

// serve makes the Service what it should be, and reports whether it is there.
func (p *pass) serve(ctx context.Context) (bool, error) {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(p.made.service)}
	if p.service == nil {
		err := p.client.Create(ctx, u, owner)
		if !apierrors.IsAlreadyExists(err) {
			return err == nil, p.refused(err)
		}
		live := &corev1.Service{}
		if err := p.reader.Get(ctx, client.ObjectKeyFromObject(p.nb), live); err != nil {
			return false, p.refused(err)
		}
		if !p.mine(live, "Service") {
			return false, nil
		}
		p.service = live
	}
	if same(u, p.service) && p.service.Labels[api.LabelNotebook] == p.nb.Name {
		return true, nil
	}
	keepMeta(u, p.service)
	err := p.client.Update(ctx, u, owner)
	return err == nil, p.refused(err)
}

// same reports whether a Service serves what it should, and nothing else.
func same(want *unstructured.Unstructured, has *corev1.Service) bool {
	var w corev1.Service
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(want.Object, &w); err != nil {
		return false
	}
	return maps.Equal(w.Spec.Selector, has.Spec.Selector) && w.Spec.Type == has.Spec.Type && len(w.Spec.Ports) == len(has.Spec.Ports) &&
		equality.Semantic.DeepDerivative(w.Spec.Ports, has.Spec.Ports)
}

// mine reports whether an object that has the notebook's name is of this notebook. If
// not it is left alone, and why is noted.
func (p *pass) mine(o client.Object, kind string) bool {
	if metav1.IsControlledBy(o, p.nb) {
		return true
	}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil && ref.Kind == kubeflow.Kind && ref.Name == p.nb.Name {
		p.later(earlierAgain)
		return false
	}
	p.facts.Taken = fmt.Sprintf("a %s named %s in namespace %s does not belong to this notebook; rename the notebook, or delete that object (kubectl delete %s %s -n %s)",
		kind, p.nb.Name, p.nb.Namespace, kind, p.nb.Name, p.nb.Namespace)
	p.later(takenAgain)
	return false
}

// refused notes an answer by which the API server does not do what was asked, for
// the user to see. What has come too late is tried again; other errors are given
// back.
func (p *pass) refused(err error) error {
	if err == nil {
		return nil
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) && p.set != nil {
		p.later(staleAgain)
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	switch status.Status().Code {
	case http.StatusForbidden:
		p.later(refusedAgain)
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
	default:
		return err
	}
	p.facts.Refusal = &reasons.Refusal{Message: err.Error()}
	return nil
}

// room asks whether the pod that is wanted would find a place if the one that runs
// were gone: in the quotas of its namespace, and on a node. A pod without GPUs is
// taken to find a node, and so is one whose cluster cannot be counted.
func (p *pass) room(ctx context.Context) (rules.Room, string) {
	var quotas corev1.ResourceQuotaList
	if err := p.client.List(ctx, &quotas, client.InNamespace(p.nb.Namespace)); err != nil {
		return rules.RoomNo, "quotas cannot be read: " + err.Error()
	}
	if short := explain.QuotaRoom(quotas.Items, p.made.pod, p.pod); short != nil {
		return rules.RoomNo, short.String()
	}
	if len(explain.AmountsOf(p.made.pod)) == 0 {
		return rules.RoomYes, ""
	}
	nodes, pods, err := p.cluster.all(ctx)
	if err != nil {
		return rules.RoomNo, "the cluster cannot be read: " + err.Error()
	}
	short, err := explain.Room(nodes, pods, p.made.pod, p.pod.UID)
	if short == nil || err != nil {
		return rules.RoomYes, ""
	}
	return rules.RoomNo, short.String()
}

// remark returns the warnings about images, before their pull is awaited.
func (p *pass) remark(ctx context.Context) error {
	containers := slices.Concat(p.made.pod.Spec.InitContainers, p.made.pod.Spec.Containers)
	for i := range containers {
		c := &containers[i]
		if text := reasons.ImageRemark(c.Image); text != "" {
			if err := p.tell(ctx, corev1.EventTypeWarning, "ImageTag", text, p.made.want.Mark); err != nil {
				return err
			}
		}
		if err := p.remarkDriver(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// remarkDriver says that the drivers of the nodes are too old for an image, if the
// image tells what it needs and the pod asks for GPUs.
func (p *pass) remarkDriver(ctx context.Context, c *corev1.Container) error {
	require := ""
	if i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "NVIDIA_REQUIRE_CUDA" }); i >= 0 {
		require = c.Env[i].Value
	}
	need, from := reasons.RequiredCUDA(require, c.Image)
	if need.Major == 0 || len(explain.AmountsOf(p.made.pod)) == 0 {
		return nil
	}
	nodes, err := p.cluster.nodes(ctx, time.Time{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	text := reasons.CUDARemark(c.Image, need, from, explain.NewestCUDA(nodes, p.made.pod))
	if text == "" {
		return nil
	}
	return p.tell(ctx, corev1.EventTypeWarning, "DriverTooOld", text, p.made.want.Mark)
}
