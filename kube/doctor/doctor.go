// Package doctor says what a cluster lacks before its pods can use GPUs, from its
// objects alone: who offers GPUs and who does not, who serves them, and the four
// things every GPU cluster needs: a device plugin, drivers, a scheduler, monitoring.
//
// It is pure: Examine turns objects that the caller has listed into findings. It asks
// no node; that is agent/doctor's affair, on the node.
package doctor

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/view"
)

// Cluster is what was listed of a cluster, in any order. Nodes and Pods are needed;
// what else is empty is taken not to be there.
type Cluster struct {
	Nodes       []*v1.Node
	Pods        []*v1.Pod // those that have not ended
	DaemonSets  []*appsv1.DaemonSet
	Deployments []*appsv1.Deployment
	Leases      []*coordinationv1.Lease // of kube-system
	Quotas      []*v1.ResourceQuota
	LimitRanges []*v1.LimitRange
	// PriorityClasses are those of the cluster.
	PriorityClasses []*schedulingv1.PriorityClass
	Queues          []*v1alpha1.Queue
	Namespaces      []*v1.Namespace // needed only where there are Queues
	// Slices are what DRA drivers offer to claims.
	Slices []*resourcev1.ResourceSlice
	// Classes may name a resource that kube-scheduler serves from such offers.
	Classes []*resourcev1.DeviceClass
	// PriceBooks says that the API server knows that kind, and Prices is what its objects say.
	PriceBooks bool
	Prices     cost.Rules
	// BooksChanged is when PriceBooks were written for the last time, by name.
	BooksChanged map[string]time.Time
	Ledger       Ledger
	Server       Server
	Notebooks    []Notebook
	// MovingImages are those of notebook profiles whose tag may mean another image tomorrow, each with its profile.
	MovingImages []string
	// Claims and Volumes are those of the cluster.
	Claims  []*v1.PersistentVolumeClaim
	Volumes []*v1.PersistentVolume
	// NodePools are those of Karpenter, and Unscaled what the cluster autoscaler said of pods.
	NodePools []NodePool
	Unscaled  []Unscaled
	// Scrapes are what some exporters said, at most MostScrapes.
	Scrapes []Scrape
	// PluginConfigs are the ConfigMaps in PluginSpaces that configure a device plugin, and PolicyConfigs those of them that ClusterPolicies
	// of the GPU Operator name, in its namespace.
	PluginConfigs []PluginConfig
	PolicyConfigs []string
	// Rules are those of the PrometheusRules.
	Rules []Rule
	// Webhooks are those whose failurePolicy is Fail and that a Service answers, and Unanswered those of them whose
	// Services have no ready endpoint.
	Webhooks, Unanswered []Webhook
	// Guarded says that the admission policies of Berth's scheduler are there.
	Guarded bool
	// ClusterPolicy says that the API server knows the GPU Operator's kind of that name.
	ClusterPolicy bool
	// Unread names the resources that could not be listed, each with the reason.
	Unread map[string]string
	Now    time.Time
}

// Examine judges a cluster. The findings come in a fixed order; equal clusters give
// equal findings. There are as many as the cluster has kinds of nodes and of trouble,
// however many nodes it has.
func Examine(c Cluster) []finding.Finding {
	e := look(c)
	var out []finding.Finding
	out = append(out, e.unread()...)
	out = append(out, e.gpuNodes()...)
	out = append(out, e.plugin(), e.drivers(), e.scheduling(), e.monitoring())
	out = append(out, e.prometheus()...)
	out = append(out, e.rules()...)
	out = append(out, e.exported()...)
	out = append(out, e.unserved()...)
	out = append(out, e.claims()...)
	out = append(out, e.twice()...)
	out = append(out, e.unreadConfigs()...)
	out = append(out, e.devices()...)
	out = append(out, e.closed()...)
	out = append(out, e.tolerations()...)
	out = append(out, e.unnamed()...)
	out = append(out, e.taints()...)
	out = append(out, e.quotas()...)
	out = append(out, e.limits()...)
	out = append(out, e.defaultClass()...)
	out = append(out, e.webhooks()...)
	out = append(out, e.queues()...)
	out = append(out, e.prices()...)
	out = append(out, e.agedPrices()...)
	out = append(out, e.ledger()...)
	out = append(out, e.copies()...)
	out = append(out, e.unheld()...)
	out = append(out, e.versions()...)
	out = append(out, e.clocks()...)
	out = append(out, e.certificates()...)
	out = append(out, e.culling()...)
	out = append(out, e.moving()...)
	out = append(out, e.stale()...)
	out = append(out, e.blind()...)
	out = append(out, e.privileged()...)
	out = append(out, e.strays()...)
	out = append(out, e.stranded()...)
	out = append(out, e.volumes()...)
	out = append(out, e.templates()...)
	out = append(out, e.fakes()...)
	out = append(out, e.operator())
	out = append(out, e.operatorPods()...)
	return explained(append(out, e.otherControllers()))
}

// explained adds to findings how they were seen.
func explained(list []finding.Finding) []finding.Finding {
	for i := range list {
		list[i].How = how[list[i].Name]
	}
	return list
}

// examined is a cluster with what the checks share.
type examined struct {
	Cluster
	view     view.View            // by name, nodes without GPUs too
	byName   map[string]*v1.Node  // all nodes
	offering []devices.Node       // nodes that offer GPUs
	hidden   []*v1.Node           // nodes with GPUs without a device plugin, by name
	dra      devices.DRA          // what NVIDIA's DRA driver offers
	parts    []*part              // what GPU clusters are made of, by role and name
	on       map[string][]*v1.Pod // pods by node
}

func look(c Cluster) *examined {
	e := &examined{Cluster: c, view: view.Cluster(c.Nodes, c.Pods), byName: map[string]*v1.Node{}, on: map[string][]*v1.Pod{}, dra: devices.ReadDRA(c.Slices, c.Classes)}
	for _, n := range c.Nodes {
		e.byName[n.Name] = n
	}
	for _, p := range c.Pods {
		if p.Spec.NodeName != "" {
			e.on[p.Spec.NodeName] = append(e.on[p.Spec.NodeName], p)
		}
	}
	for i := range e.view.Nodes {
		n := e.byName[e.view.Nodes[i].Name]
		switch {
		case devices.GPUNode(n):
			e.offering = append(e.offering, e.view.Nodes[i])
		case hardware(n) != "" && e.dra.Devices[n.Name] == 0:
			e.hidden = append(e.hidden, n)
		}
	}
	e.parts = findParts(c.DaemonSets, c.Pods)
	return e
}

// unread says what could not be looked at.
func (e *examined) unread() []finding.Finding {
	var out []finding.Finding
	for _, what := range sortedKeys(e.Unread) {
		out = append(out, warn("access", what+" cannot be listed ("+e.Unread[what]+"), so what they tell is missing below",
			"use an account that may list them, for example with --as"))
	}
	return out
}

func ok(name, format string, args ...any) finding.Finding {
	return finding.Finding{Name: name, Status: finding.OK, Seen: fmt.Sprintf(format, args...)}
}

func warn(name, seen, do string) finding.Finding {
	return finding.Finding{Name: name, Status: finding.Warn, Seen: seen, Do: do}
}

func fail(name, seen, do string) finding.Finding {
	return finding.Finding{Name: name, Status: finding.Fail, Seen: seen, Do: do}
}

// simulated reports whether a node is one of berth up.
func simulated(n *v1.Node) bool { return n.Labels[api.LabelSimulated] == "true" }

// count writes "1 node" and "2 nodes".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// mostNames is how many of many names are told.
const mostNames = 3

// few writes the first names of a list, and how many more there are.
func few(names []string) string {
	if len(names) <= mostNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNames], ", "), len(names)-mostNames)
}
