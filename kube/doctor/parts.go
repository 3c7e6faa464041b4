package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/view"
)

// role is what a DaemonSet does for GPUs.
type role string

// The first six are what the GPU Operator installs, in the order of its documents.
const (
	driver       role = "driver"
	toolkit      role = "container toolkit"
	plugin       role = "device plugin"
	roleExporter role = "DCGM exporter"
	discovery    role = "GPU Feature Discovery"
	features     role = "Node Feature Discovery"
	mps          role = "MPS control daemon"
	dra          role = "DRA driver"
)

var operatorRoles = []role{driver, toolkit, plugin, roleExporter, discovery, features}

// kind is one way in which a part comes to a cluster, and how its pods are known.
type kind struct {
	role       role
	who        string // brings it
	key, value string // label of its pods; "" is none
	container  string // in the name of a container of its pods; "" is any
	image      string // last part of an image's name; "" is any
}

// agentLabel is the label app of the pods of Berth's agent, and berthsAgent what it is
// called here.
const agentLabel, berthsAgent = "berth-agent", "Berth's agent"

// kinds are tried in order; the first that is met counts. The labels are those of the
// manifests and charts of those who are named. NVIDIA's chart of the device plugin
// gives GPU Feature Discovery and the MPS daemon the plugin's label, so that those
// are told apart by their containers, before the plugin.
var kinds = []kind{
	{role: discovery, who: "GPU Operator", key: "app", value: "gpu-feature-discovery"},
	{role: discovery, who: "Helm chart", key: "app.kubernetes.io/name", value: "gpu-feature-discovery"},
	{role: discovery, who: "Helm chart", container: "gpu-feature-discovery"},
	{role: mps, who: "GPU Operator", key: "app", value: "nvidia-device-plugin-mps-control-daemon"},
	{role: mps, who: "Helm chart", container: "mps-control-daemon"},
	{role: plugin, who: "GPU Operator", key: "app", value: "nvidia-device-plugin-daemonset"},
	{role: plugin, who: "NVIDIA's static manifest", key: "name", value: "nvidia-device-plugin-ds"},
	{role: plugin, who: "NVIDIA's Helm chart", key: "app.kubernetes.io/name", value: "nvidia-device-plugin"},
	{role: plugin, who: berthsAgent, key: "app", value: agentLabel},
	{role: plugin, who: "GKE", key: "k8s-app", value: "nvidia-gpu-device-plugin"},
	{role: plugin, who: "add-on of the cloud", key: "k8s-app", value: "nvidia-device-plugin"},
	{role: plugin, who: "HAMi", key: "app.kubernetes.io/component", value: "hami-device-plugin"},
	{role: plugin, who: "Volcano", key: "name", value: "volcano-device-plugin"},
	{role: plugin, who: "known by its image", image: "k8s-device-plugin"},
	{role: driver, who: "GPU Operator", key: "app", value: "nvidia-driver-daemonset"},
	{role: driver, who: "GPU Operator", key: "app.kubernetes.io/component", value: "nvidia-driver"},
	{role: driver, who: "GKE", key: "k8s-app", value: "nvidia-driver-installer"},
	{role: toolkit, who: "GPU Operator", key: "app", value: "nvidia-container-toolkit-daemonset"},
	{role: roleExporter, who: "GPU Operator", key: "app", value: "nvidia-dcgm-exporter"},
	{role: roleExporter, who: "NVIDIA's manifest or chart", key: "app.kubernetes.io/name", value: "dcgm-exporter"},
	{role: roleExporter, who: "plain manifest", key: "app", value: "dcgm-exporter"},
	{role: roleExporter, who: "known by its image", image: "dcgm-exporter"},
	{role: features, who: "NFD", key: "app.kubernetes.io/name", value: "node-feature-discovery"},
	{role: features, who: "NFD", key: "app", value: "nfd-worker"},
	{role: dra, who: "NVIDIA", key: "app.kubernetes.io/name", value: "nvidia-dra-driver-gpu"},
}

// part is a DaemonSet that is known.
type part struct {
	*kind
	set       *appsv1.DaemonSet
	version   string   // of its image; "" is unknown
	nodes     []string // that have a pod of it, sorted
	simulated bool     // stands there for berth up; its pods run nothing
}

// findParts finds the known DaemonSets, by role, namespace and name.
func findParts(sets []*appsv1.DaemonSet, pods []*v1.Pod) []*part {
	byName := map[types.NamespacedName]*part{}
	var out []*part
	for _, d := range sets {
		k := kindOf(d)
		if k == nil {
			continue
		}
		p := &part{kind: k, set: d, version: version(d, k), simulated: d.Annotations[api.AnnotationSimulated] != ""}
		byName[types.NamespacedName{Namespace: d.Namespace, Name: d.Name}] = p
		out = append(out, p)
	}
	for _, pod := range pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil || ref.Kind != "DaemonSet" || pod.Spec.NodeName == "" {
			continue
		}
		if p := byName[types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}]; p != nil {
			p.nodes = append(p.nodes, pod.Spec.NodeName)
		}
	}
	for _, p := range out {
		slices.Sort(p.nodes)
		p.nodes = slices.Compact(p.nodes)
	}
	slices.SortFunc(out, func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.set.Namespace, b.set.Namespace), cmp.Compare(a.set.Name, b.set.Name))
	})
	return out
}

// kindOf is nil for a DaemonSet that is not known.
func kindOf(d *appsv1.DaemonSet) *kind {
	t := &d.Spec.Template
	for i := range kinds {
		k := &kinds[i]
		if k.key != "" && t.Labels[k.key] != k.value {
			continue
		}
		if k.container == "" && k.image == "" || slices.ContainsFunc(t.Spec.Containers, func(c v1.Container) bool {
			return strings.Contains(c.Name, k.container) && (k.image == "" || view.ImageName(c.Image) == k.image)
		}) {
			return k
		}
	}
	return nil
}

// version is the tag of the image that does the work, without what it is built on.
func version(d *appsv1.DaemonSet, k *kind) string {
	containers := d.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return ""
	}
	image := containers[0].Image
	for _, c := range containers {
		if k.image != "" && view.ImageName(c.Image) == k.image {
			image = c.Image
		}
	}
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	for _, built := range []string{"-ubuntu", "-ubi", "-distroless"} {
		tag, _, _ = strings.Cut(tag, built)
	}
	return tag
}

// name is namespace/name of the DaemonSet.
func (p *part) name() string { return p.set.Namespace + "/" + p.set.Name }

// ready and wanted count its pods.
func (p *part) ready() int  { return int(p.set.Status.NumberReady) }
func (p *part) wanted() int { return int(p.set.Status.DesiredNumberScheduled) }

// String is who brings it, the DaemonSet, its version and readiness.
func (p *part) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "DaemonSet %s", p.name())
	if p.version != "" {
		b.WriteString(" " + p.version)
	}
	who := p.who
	if p.simulated {
		who += ", simulated"
	}
	fmt.Fprintf(&b, " (%s), %d of %d ready", who, p.ready(), p.wanted())
	return b.String()
}

// of lists the parts of a role. Where some of them want pods, those that want none
// are left out: GKE has one for each kind of node, most of them for no node.
func (e *examined) of(r role) []*part {
	var all, used []*part
	for _, p := range e.parts {
		if p.role != r {
			continue
		}
		all = append(all, p)
		if p.wanted() > 0 || len(p.nodes) > 0 {
			used = append(used, p)
		}
	}
	if len(used) > 0 {
		return used
	}
	return all
}

// listed writes parts, at most mostNames of them.
func listed(parts []*part) string {
	var out []string
	for _, p := range parts {
		out = append(out, p.String())
	}
	if len(out) > mostNames {
		out = append(out[:mostNames:mostNames], fmt.Sprintf("and %d more", len(out)-mostNames))
	}
	return strings.Join(out, "; ")
}

// late lists the parts that are not ready on every node.
func late(parts []*part) []*part {
	return slices.DeleteFunc(slices.Clone(parts), func(p *part) bool { return p.ready() >= p.wanted() })
}
