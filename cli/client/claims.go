package client

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
)

// Volumes reads which nodes the volumes of a pod can be used on, and which of its claims
// keep it from every node. A volume that may not be read restricts nothing.
func (c *Cluster) Volumes(ctx context.Context, pod *v1.Pod) ([]explain.VolumeTopology, []reasons.Claim) {
	var claims []*v1.PersistentVolumeClaim
	var volumes []*v1.PersistentVolume
	readable := true
	for _, name := range explain.ClaimsOf(pod) {
		claim, err := c.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			readable = readable && apierrors.IsNotFound(err)
			continue
		}
		claims = append(claims, claim)
		if claim.Spec.VolumeName == "" {
			continue
		}
		if v, err := c.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{}); err == nil {
			volumes = append(volumes, v)
		}
	}
	ties := explain.VolumeTopologies(pod, claims, volumes)
	if !readable || len(pod.Spec.Volumes) == 0 {
		return ties, nil
	}
	classes, err := c.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return ties, nil // which classes there are is unknown then
	}
	return ties, explain.BadClaims(pod, claims, classes.Items, c.unprovided(ctx, pod.Namespace, claims))
}

// unprovided are the events about claims of a namespace, or of any if it is "", that could not
// be provided; none where all of claims have a volume, or events may not be read.
func (c *Cluster) unprovided(ctx context.Context, namespace string, claims []*v1.PersistentVolumeClaim) []v1.Event {
	if !slices.ContainsFunc(claims, func(claim *v1.PersistentVolumeClaim) bool { return claim.Spec.VolumeName == "" }) {
		return nil
	}
	list, err := c.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=ProvisioningFailed"})
	if err != nil {
		return nil
	}
	return list.Items
}

// BadClaims returns what tells which claims keep a pod of a namespace, or of any if it is
// "", from every node; nil is that claims or classes may not be read.
func BadClaims(ctx context.Context, c *Cluster, namespace string) func(*v1.Pod) []reasons.Claim {
	claims, err := c.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	classes, err := c.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	all := Pointers(claims.Items)
	failures := c.unprovided(ctx, namespace, all)
	return func(p *v1.Pod) []reasons.Claim { return explain.BadClaims(p, all, classes.Items, failures) }
}

// MissingClaims are the ResourceClaims, and the templates for them, that a pod names and that
// do not exist. One that may not be read is taken to exist.
func (c *Cluster) MissingClaims(ctx context.Context, pod *v1.Pod) []string {
	var out []string
	for i := range pod.Spec.ResourceClaims {
		r := &pod.Spec.ResourceClaims[i]
		if name := r.ResourceClaimName; name != nil {
			if _, err := c.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, *name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				out = append(out, "ResourceClaim "+*name)
			}
		}
		if name := r.ResourceClaimTemplateName; name != nil {
			if _, err := c.ResourceV1().ResourceClaimTemplates(pod.Namespace).Get(ctx, *name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				out = append(out, "ResourceClaimTemplate "+*name)
			}
		}
	}
	return out
}
