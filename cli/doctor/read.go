package doctor

import (
	"context"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/kube/doctor"
	"berth.dev/berth/kube/price"
)

// systemNamespace has the leases of schedulers.
const systemNamespace = "kube-system"

// examine lists what a doctor looks at. Nodes and pods must be readable; what else
// cannot be is listed in Unread.
func examine(ctx context.Context, c *client.Cluster, o client.Options) (doctor.Cluster, error) {
	out := doctor.Cluster{Unread: map[string]string{}, Now: o.Time()}
	var err error
	if out.Nodes, out.Pods, err = c.NodesAndPods(ctx, ""); err != nil {
		return doctor.Cluster{}, err
	}
	cached := metav1.ListOptions{ResourceVersion: "0"}
	var sets *appsv1.DaemonSetList
	var deployments *appsv1.DeploymentList
	var leases *coordinationv1.LeaseList
	var quotas *v1.ResourceQuotaList
	var limits *v1.LimitRangeList
	var priorities *schedulingv1.PriorityClassList
	var offers *resourcev1.ResourceSliceList
	var classes *resourcev1.DeviceClassList
	var policies *admissionv1.ValidatingAdmissionPolicyList
	asks := []struct {
		what string
		ask  func() error
		err  error
	}{
		{what: "daemonsets", ask: func() (err error) { sets, err = c.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, cached); return }},
		{what: "deployments", ask: func() (err error) {
			deployments, err = c.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, cached)
			return
		}},
		{what: "leases", ask: func() (err error) { leases, err = c.CoordinationV1().Leases(systemNamespace).List(ctx, cached); return }},
		{what: "resourcequotas", ask: func() (err error) {
			quotas, err = c.CoreV1().ResourceQuotas(metav1.NamespaceAll).List(ctx, cached)
			return
		}},
		{what: "limitranges", ask: func() (err error) {
			limits, err = c.CoreV1().LimitRanges(metav1.NamespaceAll).List(ctx, cached)
			return
		}},
		{what: "priorityclasses", ask: func() (err error) { priorities, err = c.SchedulingV1().PriorityClasses().List(ctx, cached); return }},
		{what: "queues and namespaces", ask: func() (err error) {
			out.Queues, out.Namespaces, err = queues(ctx, c, o)
			return
		}},
		{what: "pricebooks", ask: func() (err error) {
			if out.PriceBooks = knows(c, v1alpha1.GroupVersion.String(), v1alpha1.KindPriceBook); !out.PriceBooks {
				return nil
			}
			books, err := c.PriceBooks(ctx, o)
			out.Prices, out.PriceBooks = price.Rules(books), err == nil
			return err
		}},
		{what: "resourceslices", ask: func() (err error) { offers, err = c.ResourceV1().ResourceSlices().List(ctx, cached); return }},
		{what: "deviceclasses", ask: func() (err error) { classes, err = c.ResourceV1().DeviceClasses().List(ctx, cached); return }},
		{what: "validatingadmissionpolicies", ask: func() (err error) {
			policies, err = c.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, cached)
			return
		}},
	}
	var wg sync.WaitGroup
	for i := range asks {
		wg.Go(func() { asks[i].err = asks[i].ask() })
	}
	wg.Wait()
	for _, a := range asks {
		switch {
		case a.err == nil, apierrors.IsNotFound(a.err): // an older API server has no such resource
		case apierrors.IsForbidden(a.err):
			out.Unread[a.what] = "forbidden"
		default:
			return doctor.Cluster{}, c.Failed("list "+a.what, a.err)
		}
	}
	if sets != nil {
		out.DaemonSets = client.Pointers(sets.Items)
	}
	if deployments != nil {
		out.Deployments = client.Pointers(deployments.Items)
	}
	if leases != nil {
		out.Leases = client.Pointers(leases.Items)
	}
	if quotas != nil {
		out.Quotas = client.Pointers(quotas.Items)
	}
	if limits != nil {
		out.LimitRanges = client.Pointers(limits.Items)
	}
	if priorities != nil {
		out.PriorityClasses = client.Pointers(priorities.Items)
	}
	if offers != nil {
		out.Slices = client.Pointers(offers.Items)
	}
	if classes != nil {
		out.Classes = client.Pointers(classes.Items)
	}
	out.Guarded = policies != nil && client.Guarded(policies.Items)
	out.ClusterPolicy = knows(c, "nvidia.com/v1", "ClusterPolicy")
	return out, nil
}

// queues returns the Queues of a cluster, and its namespaces if there are any.
func queues(ctx context.Context, c *client.Cluster, o client.Options) ([]*v1alpha1.Queue, []*v1.Namespace, error) {
	if !knows(c, v1alpha1.GroupVersion.String(), v1alpha1.KindQueue) {
		return nil, nil, nil
	}
	list, _, err := c.Queues(ctx, o)
	if err != nil || len(list) == 0 {
		return nil, nil, err
	}
	spaces, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, nil, err
	}
	return list, client.Pointers(spaces.Items), nil
}

// knows reports whether the API server serves a kind. One that does not answer serves
// none: the kind is a hint, no more.
func knows(c *client.Cluster, groupVersion, kind string) bool {
	list, err := c.Discovery().ServerResourcesForGroupVersion(groupVersion)
	return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind })
}
