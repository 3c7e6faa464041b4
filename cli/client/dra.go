package client

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/devices"
)

// DRA reads what NVIDIA's DRA driver offers to claims; nothing where that may not be read,
// or the API server is too old to know it.
func (c *Cluster) DRA(ctx context.Context) devices.DRA {
	offers := c.slices(ctx)
	if len(offers) == 0 {
		return devices.DRA{}
	}
	var classes []*resourcev1.DeviceClass
	if list, err := c.ResourceV1().DeviceClasses().List(ctx, metav1.ListOptions{ResourceVersion: "0"}); err == nil {
		classes = Pointers(list.Items)
	}
	out := devices.ReadDRA(offers, classes)
	list, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	out.Berth = err == nil && Guarded(Pointers(list.Items))
	return out
}

// Guarded reports whether admission policies of Berth's scheduler are among these.
func Guarded(policies []*admissionv1.ValidatingAdmissionPolicy) bool {
	return slices.ContainsFunc(policies, func(p *admissionv1.ValidatingAdmissionPolicy) bool {
		return p.Annotations[api.AnnotationScheduler] != ""
	})
}

// slices lists the ResourceSlices of NVIDIA's driver, none if they may not be listed. Of
// their devices only the number is kept.
func (c *Cluster) slices(ctx context.Context) []*resourcev1.ResourceSlice {
	selector := resourcev1.ResourceSliceSelectorDriver + "=" + devices.DRADriver
	out, err := paged(metav1.ListOptions{FieldSelector: selector}, func(o metav1.ListOptions) ([]resourcev1.ResourceSlice, string, error) {
		list, err := c.ResourceV1().ResourceSlices().List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return list.Items, list.Continue, nil
	}, func(s *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
		out := &resourcev1.ResourceSlice{Spec: s.Spec}
		out.Spec.Devices = make([]resourcev1.Device, len(s.Spec.Devices))
		return out
	})
	if err != nil {
		return nil
	}
	return out
}
