package doctor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	var policies []*admissionv1.ValidatingAdmissionPolicy
	asks := []question{
		list("daemonsets", c.AppsV1().DaemonSets(metav1.NamespaceAll).List, func(l *appsv1.DaemonSetList) []appsv1.DaemonSet { return l.Items }, &out.DaemonSets),
		list("deployments", c.AppsV1().Deployments(metav1.NamespaceAll).List, func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items }, &out.Deployments),
		list("leases", c.CoordinationV1().Leases(systemNamespace).List, func(l *coordinationv1.LeaseList) []coordinationv1.Lease { return l.Items }, &out.Leases),
		list("resourcequotas", c.CoreV1().ResourceQuotas(metav1.NamespaceAll).List, func(l *v1.ResourceQuotaList) []v1.ResourceQuota { return l.Items }, &out.Quotas),
		list("limitranges", c.CoreV1().LimitRanges(metav1.NamespaceAll).List, func(l *v1.LimitRangeList) []v1.LimitRange { return l.Items }, &out.LimitRanges),
		list("priorityclasses", c.SchedulingV1().PriorityClasses().List, func(l *schedulingv1.PriorityClassList) []schedulingv1.PriorityClass { return l.Items }, &out.PriorityClasses),
		list("resourceslices", c.ResourceV1().ResourceSlices().List, func(l *resourcev1.ResourceSliceList) []resourcev1.ResourceSlice { return l.Items }, &out.Slices),
		list("deviceclasses", c.ResourceV1().DeviceClasses().List, func(l *resourcev1.DeviceClassList) []resourcev1.DeviceClass { return l.Items }, &out.Classes),
		list("validatingadmissionpolicies", c.AdmissionregistrationV1().ValidatingAdmissionPolicies().List,
			func(l *admissionv1.ValidatingAdmissionPolicyList) []admissionv1.ValidatingAdmissionPolicy {
				return l.Items
			}, &policies),
		{what: "webhooks and endpointslices", ask: func(ctx context.Context) (err error) {
			out.Webhooks, out.Unanswered, err = webhooks(ctx, c)
			return err
		}},
		{what: "queues and namespaces", ask: func(ctx context.Context) (err error) {
			out.Queues, out.Namespaces, err = queues(ctx, c, o)
			return err
		}},
		{what: "prometheusrules", ask: func(ctx context.Context) (err error) {
			out.Rules, err = alertRules(ctx, c, o)
			return err
		}},
		{what: "pricebooks", ask: func(ctx context.Context) error {
			if out.PriceBooks = knows(c, v1alpha1.GroupVersion.String(), v1alpha1.KindPriceBook); !out.PriceBooks {
				return nil
			}
			books, err := c.PriceBooks(ctx, o)
			out.Prices, out.PriceBooks, out.BooksChanged = price.Rules(books), err == nil, written(books)
			return err
		}},
		{what: "notebooks and namespaces", ask: func(ctx context.Context) (err error) {
			out.Notebooks, err = notebooks(ctx, c, o)
			return err
		}},
		{what: "notebookprofiles", ask: func(ctx context.Context) (err error) {
			out.MovingImages, err = movingImages(ctx, c, o)
			return err
		}},
		{what: "the API server", ask: func(ctx context.Context) error {
			out.Server = server(ctx, c, time.Now)
			return nil
		}},
		{what: "the ledger", ask: func(ctx context.Context) error {
			out.Ledger = ledger(ctx, c, o, out.Now)
			return nil
		}},
	}
	asks = append(asks, aroundGPUs(c, o, &out)...)
	var wg sync.WaitGroup
	for i := range asks {
		wg.Go(func() { asks[i].err = asks[i].ask(ctx) })
	}
	wg.Wait()
	configs := question{what: "configmaps", err: pluginConfigs(ctx, c, o, &out)} // those beside the DaemonSets
	for _, a := range append(asks, configs) {
		switch {
		case a.err == nil, apierrors.IsNotFound(a.err): // an older API server has no such resource
		case apierrors.IsForbidden(a.err):
			out.Unread[a.what] = "forbidden"
		default:
			return doctor.Cluster{}, c.Failed("list "+a.what, a.err)
		}
	}
	out.Guarded = client.Guarded(policies)
	out.ClusterPolicy = knows(c, "nvidia.com/v1", "ClusterPolicy")
	return out, nil
}

// question is something that is asked of the API server beside others.
type question struct {
	what string
	ask  func(ctx context.Context) error
	err  error
}

// list is the question for all objects of a kind, which become to.
func list[L, T any](what string, of func(context.Context, metav1.ListOptions) (*L, error), items func(*L) []T, to *[]*T) question {
	return question{what: what, ask: func(ctx context.Context) error {
		l, err := of(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err == nil {
			*to = client.Pointers(items(l))
		}
		return err
	}}
}

// webhooks returns the webhooks of a cluster that a Service has to answer, and those of them whose Services have no ready endpoint.
func webhooks(ctx context.Context, c *client.Cluster) (all, unanswered []doctor.Webhook, err error) {
	mutating, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, nil, err
	}
	validating, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, nil, err
	}
	ready := map[string]bool{} // by namespace and Service
	all = doctor.Webhooks(client.Pointers(mutating.Items), client.Pointers(validating.Items))
	for _, w := range all {
		key := w.Namespace + "/" + w.Service
		if _, known := ready[key]; !known {
			slices, err := c.DiscoveryV1().EndpointSlices(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + w.Service})
			if err != nil {
				return nil, nil, err
			}
			ready[key] = answered(slices.Items)
		}
		if !ready[key] {
			unanswered = append(unanswered, w)
		}
	}
	return all, unanswered, nil
}

// answered reports whether a Service has a ready endpoint. One whose condition is not known is ready.
func answered(list []discoveryv1.EndpointSlice) bool {
	for i := range list {
		for k := range list[i].Endpoints {
			if r := list[i].Endpoints[k].Conditions.Ready; r == nil || *r {
				return true
			}
		}
	}
	return false
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

// prometheusRules is the kind of the Prometheus Operator for alerts.
var prometheusRules = schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "prometheusrules"} //nolint:gochecknoglobals // a constant

// alertRules returns the rules of the PrometheusRules of a cluster, where it has that kind.
func alertRules(ctx context.Context, c *client.Cluster, o client.Options) ([]doctor.Rule, error) {
	list, err := others(ctx, c, o, "PrometheusRule", prometheusRules)
	if err != nil {
		return nil, err
	}
	var out []doctor.Rule
	for i := range list {
		var spec struct {
			Spec struct {
				Groups []struct {
					Rules []struct{ Alert, Record, Expr string }
				}
			}
		}
		o := &list[i]
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &spec) != nil {
			continue // expr may be a number: such a rule asks for no series
		}
		for _, g := range spec.Spec.Groups {
			for _, r := range g.Rules {
				out = append(out, doctor.Rule{In: o.GetNamespace() + "/" + o.GetName(), Name: cmp.Or(r.Alert, r.Record), Expr: r.Expr})
			}
		}
	}
	return out, nil
}

// knows reports whether the API server serves a kind. One that does not answer serves
// none: the kind is a hint, no more.
func knows(c *client.Cluster, groupVersion, kind string) bool {
	list, err := c.Discovery().ServerResourcesForGroupVersion(groupVersion)
	return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind })
}
