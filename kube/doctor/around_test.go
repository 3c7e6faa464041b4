package doctor_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/doctor"
	"berth.dev/berth/kube/exporter"
	"berth.dev/berth/kube/kubetest"
)

var lookedAt = time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)

// gpuNode is a node in zone a with two GPUs, which is there for long.
func gpuNode() *v1.Node {
	n := kubetest.Inventory("n", kubetest.A100s("n", 2), "cpu", 8, "pods", 100, api.ResourceGPU, 2)
	n.Labels[v1.LabelTopologyZone], n.CreationTimestamp = "a", metav1.NewTime(lookedAt.AddDate(0, -1, 0))
	return n
}

// seen is what is found of a name, which must say what to do, and how it was seen.
func seen(t *testing.T, c *doctor.Cluster, name string) string {
	t.Helper()
	c.Now = lookedAt
	text := ""
	for _, f := range doctor.Examine(*c) {
		if f.Name != name {
			continue
		}
		if text += f.Seen; f.Status != finding.Warn || f.Do == "" || f.How == "" {
			t.Errorf("%+v: no warning, or what to do or how it was seen is missing", f)
		}
	}
	return text
}

func TestWhatIsNotThereForGPUs(t *testing.T) {
	waits := func(name string) *v1.Pod { return kubetest.Unplaced(name, 0, 1) }
	mounts := func(p *v1.Pod, claim string) *v1.Pod {
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		return p
	}
	inZone := func(zone string) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
		c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
		v := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
		v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{zone}},
		}}}}}
		return c, v
	}
	volumes := func(zone string, pods ...*v1.Pod) doctor.Cluster {
		c, v := inZone(zone)
		return doctor.Cluster{Claims: []*v1.PersistentVolumeClaim{c}, Volumes: []*v1.PersistentVolume{v}, Pods: pods}
	}
	needs := func(key string, op v1.NodeSelectorOperator, values ...string) []v1.NodeSelectorRequirement {
		return []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}
	}
	pool := func(needs []v1.NodeSelectorRequirement) doctor.Cluster {
		return doctor.Cluster{Pods: []*v1.Pod{waits("w")}, NodePools: []doctor.NodePool{{Name: "general", Needs: needs}}}
	}
	none := func(why string) string {
		return "1 pod waits for GPUs, and no NodePool of Karpenter makes nodes with some: general (" + why + ")"
	}
	scaler := func(message string) doctor.Cluster {
		return doctor.Cluster{Pods: []*v1.Pod{waits("w")}, Unscaled: []doctor.Unscaled{{Namespace: waits("w").Namespace, Pod: "w", Message: "pod didn't trigger scale-up: " + message}}}
	}
	held := func(hours float64) doctor.Cluster {
		return doctor.Cluster{Ledger: doctor.Ledger{Began: lookedAt.AddDate(0, 0, -9), Held: map[string]float64{"n": hours}}}
	}
	copies := func(last time.Time) doctor.Cluster {
		return doctor.Cluster{Ledger: doctor.Ledger{Began: lookedAt.AddDate(0, 0, -9), Copied: true, LastCopy: last}}
	}
	said := func(d exporter.Devices) doctor.Cluster {
		return doctor.Cluster{Scrapes: []doctor.Scrape{{Node: "n", Exported: d}}}
	}
	const templates = "autoscaler-templates"
	for _, tt := range []struct {
		name string
		of   string
		c    doctor.Cluster
		want string
	}{
		{"a volume in another zone", "volume-zones", volumes("b", mounts(waits("w"), "data")), "no node with GPUs reaches the volume of 1 claim, which is on nodes with topology.kubernetes.io/zone=b: a pod that mounts one gets no GPU: ns/data"},
		{"a volume where the GPUs are", "volume-zones", volumes("a", mounts(waits("w"), "data")), ""},
		{"a volume of a database in another zone", "volume-zones", volumes("b", waits("w"), mounts(kubetest.Pod("db", "", "cpu", 1), "data")), ""},
		{"a volume that no pod mounts, beside pods with GPUs", "volume-zones", volumes("b", waits("w")), "no node with GPUs reaches the volume of 1 claim, which is on nodes with topology.kubernetes.io/zone=b: a pod that mounts one gets no GPU: ns/data"},
		{"a volume of a namespace without GPUs", "volume-zones", volumes("b"), ""},

		{"a NodePool of other categories", templates, pool(needs("karpenter.k8s.aws/instance-category", v1.NodeSelectorOpIn, "c", "m", "r")), none("karpenter.k8s.aws/instance-category In c, m, r")},
		{"a NodePool of one that has GPUs", templates, pool(needs("karpenter.k8s.aws/instance-category", v1.NodeSelectorOpIn, "c", "g")), ""},
		{"a NodePool of families without GPUs", templates, pool(needs("karpenter.k8s.aws/instance-family", v1.NodeSelectorOpIn, "m5", "r6g")), none("karpenter.k8s.aws/instance-family In m5, r6g")},
		{"a NodePool that forbids them", templates, pool(needs("karpenter.k8s.aws/instance-gpu-count", v1.NodeSelectorOpDoesNotExist)), none("karpenter.k8s.aws/instance-gpu-count DoesNotExist")},
		{"a NodePool of a machine type without GPUs", templates, pool(needs(v1.LabelInstanceTypeStable, v1.NodeSelectorOpIn, "m5.large", "Standard_D4s_v5")), none("node.kubernetes.io/instance-type In m5.large, Standard_D4s_v5")},
		{"a NodePool of one with GPUs", templates, pool(needs(v1.LabelInstanceTypeStable, v1.NodeSelectorOpIn, "g5.xlarge")), ""},
		{"a NodePool of one of Azure with GPUs", templates, pool(needs(v1.LabelInstanceTypeStable, v1.NodeSelectorOpIn, "Standard_NC4as_T4_v3")), ""},
		{"a NodePool of a type to which GPUs can be added", templates, pool(needs(v1.LabelInstanceTypeStable, v1.NodeSelectorOpIn, "n1-standard-4")), ""},
		{"a NodePool of anything", templates, pool(nil), ""},
		{"a NodePool of a zone", templates, pool(needs(v1.LabelTopologyZone, v1.NodeSelectorOpIn, "a")), ""},
		{"a NodePool without GPUs, and none waited for", templates, doctor.Cluster{NodePools: []doctor.NodePool{{Name: "general", GPULimit: "0"}}}, ""},
		{"a NodePool whose limit is no GPU", templates, doctor.Cluster{Pods: []*v1.Pod{waits("w")}, NodePools: []doctor.NodePool{{Name: "general", GPULimit: "0"}}}, none("limits: nvidia.com/gpu 0")},
		{"one of two NodePools makes GPU nodes", templates, doctor.Cluster{Pods: []*v1.Pod{waits("w")}, NodePools: []doctor.NodePool{{Name: "general", GPULimit: "0"}, {Name: "gpu"}}}, ""},
		{"templates of the cluster autoscaler without GPUs", templates, scaler("2 Insufficient nvidia.com/gpu"), "1 pod waits for GPUs, and the cluster autoscaler adds no node, as by its templates new nodes have none: ns/w"},
		{"its group with GPUs may be the one that is full", templates, scaler("2 Insufficient nvidia.com/gpu, 1 max node group size reached"), ""},
		{"it lacks something else", templates, scaler("2 Insufficient cpu"), ""},

		{"a node that no pod held", "idle-nodes", held(0), "no pod has held a GPU of 1 node for 24 hours: n (2 GPUs)"},
		{"a node that was held for a while", "idle-nodes", held(0.5), ""},
		{"a ledger that began today", "idle-nodes", doctor.Cluster{Ledger: doctor.Ledger{Began: lookedAt.Add(-time.Hour), Held: map[string]float64{}}}, ""},
		{"no ledger", "idle-nodes", doctor.Cluster{}, ""},

		{"copies that stopped", "ledger-copies", copies(lookedAt.AddDate(0, 0, -4).Truncate(24 * time.Hour)), "the newest copy of the ledger of costs in the cluster is of 2026-11-24, 4 days ago: if its volume is lost, so are the days since"},
		{"no copies", "ledger-copies", copies(time.Time{}), "no day of the ledger of costs has a copy in the cluster: if its volume is lost, so are the days since"},
		{"a copy of yesterday", "ledger-copies", copies(lookedAt.AddDate(0, 0, -1).Truncate(24 * time.Hour)), ""},
		{"a cluster without GPUUsageDays", "ledger-copies", doctor.Cluster{Ledger: doctor.Ledger{Began: lookedAt.AddDate(0, 0, -9)}}, ""},

		{"an exporter of one GPU of two", "exporter-series", said(exporter.Devices{GPUs: 1, Xids: true}), "the exporter has series of fewer GPUs than its node has: n (1 of 2): of the others no use, temperature, or error is seen"},
		{"an exporter of both", "exporter-series", said(exporter.Devices{GPUs: 2, Xids: true}), ""},
		{"MIG devices without profiling", "mig-series", said(exporter.Devices{GPUs: 2, MIG: 7, MIGActive: 0, Xids: true}), "MIG devices have no series that says how busy they are, as DCGM_FI_DEV_GPU_UTIL is not measured for them: n (7 of 7)"},
		{"MIG devices with it", "mig-series", said(exporter.Devices{GPUs: 2, MIG: 7, MIGActive: 7, Xids: true}), ""},
		{"an exporter that counts no Xids", "xid-counts", said(exporter.Devices{GPUs: 2}), "the exporter counts no Xids on 1 node: alerts of failing GPUs see the last code at most: n"},
		{"an exporter that counts them", "xid-counts", said(exporter.Devices{GPUs: 2, Xids: true}), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.c.Nodes = []*v1.Node{gpuNode()}
			if got := seen(t, &tt.c, tt.of); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

func TestConfigurationsThatNoPluginReads(t *testing.T) {
	plugin := func(volumes ...v1.Volume) *appsv1.DaemonSet {
		d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "nvidia", Name: "plugin"}}
		d.Spec.Template.Labels = map[string]string{"name": "nvidia-device-plugin-ds"}
		d.Spec.Template.Spec.Volumes = volumes
		return d
	}
	mounted := v1.Volume{Name: "available-configs", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "time-slicing"}}}}
	unread := "1 configuration of the device plugin is read by none, so what it says of sharing is not so: "
	for _, tt := range []struct {
		name   string
		set    *appsv1.DaemonSet
		config doctor.PluginConfig
		policy []string
		want   string
	}{
		{"one that was only applied", plugin(), doctor.PluginConfig{Namespace: "nvidia", Name: "time-slicing"}, nil, unread + "nvidia/time-slicing"},
		{"one that the plugin mounts", plugin(mounted), doctor.PluginConfig{Namespace: "nvidia", Name: "time-slicing"}, nil, ""},
		{"one of that name in another namespace", plugin(mounted), doctor.PluginConfig{Namespace: "default", Name: "time-slicing"}, nil, unread + "default/time-slicing"},
		{"one that the ClusterPolicy names", plugin(), doctor.PluginConfig{Namespace: "gpu-operator", Name: "time-slicing"}, []string{"time-slicing"}, ""},
		{"a ClusterPolicy that names another", plugin(), doctor.PluginConfig{Namespace: "gpu-operator", Name: "time-slicing"}, []string{"mps"}, unread + "gpu-operator/time-slicing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := doctor.Cluster{Nodes: []*v1.Node{gpuNode()}, DaemonSets: []*appsv1.DaemonSet{tt.set}, PluginConfigs: []doctor.PluginConfig{tt.config}, PolicyConfigs: tt.policy}
			if got := seen(t, &c, "plugin-config"); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPodsWithoutGPUsThatTolerateTheirTaint(t *testing.T) {
	pod := func(namespace string, edit func(*v1.Pod)) *v1.Pod {
		p := kubetest.Pod("web", "n", "cpu", 1)
		p.Namespace = namespace
		edit(p)
		return p
	}
	as := func(p *v1.Pod) {
		p.Spec.Tolerations = []v1.Toleration{{Key: api.ResourceGPU, Operator: v1.TolerationOpExists}}
	}
	for _, tt := range []struct {
		name  string
		pod   *v1.Pod
		taint bool
		want  string
	}{
		{"a web server", pod("shop", as), true, "1 pod that asks for no GPU tolerates the taint of 1 node with GPUs, and takes CPU and memory there: n (shop/web)"},
		{"a node without a taint", pod("shop", as), false, ""},
		{"a part of the cluster", pod("kube-system", as), true, ""},
		{"a pod of a DaemonSet", pod("shop", func(p *v1.Pod) {
			as(p)
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: new(true)}}
		}), true, ""},
		{"a pod that was there before the taint", pod("shop", func(*v1.Pod) {}), true, ""},
		{"a pod with a GPU", pod("shop", func(p *v1.Pod) { p.Spec = kubetest.Pod("x", "n", api.ResourceGPU, 1).Spec; as(p) }), true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := gpuNode()
			if tt.taint {
				n.Spec.Taints = []v1.Taint{{Key: api.ResourceGPU, Value: "present", Effect: v1.TaintEffectNoSchedule}}
			}
			c := doctor.Cluster{Nodes: []*v1.Node{n}, Pods: []*v1.Pod{tt.pod}}
			if got := seen(t, &c, "strays"); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}
