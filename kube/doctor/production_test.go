package doctor_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/doctor"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/pool"
)

// rows: ML-76
func TestWhatACarefulAdministratorChecksBeforeProduction(t *testing.T) {
	node := kubetest.Foreign("a", map[string]string{"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "2"}, "nvidia.com/gpu", 2)
	held := kubetest.Pod("p", "a", "nvidia.com/gpu", 1)
	bare := doctor.Cluster{Nodes: []*v1.Node{node}, Pods: []*v1.Pod{held}, Now: now}
	ready := bare
	spot := node.DeepCopy()
	spot.Labels["karpenter.sh/capacity-type"] = "spot"
	spot.Labels["nvidia.com/gpu.replicas"] = "4"
	ready.Nodes = []*v1.Node{spot}
	ready.Quotas = []*v1.ResourceQuota{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"},
		Spec:       v1.ResourceQuotaSpec{Hard: v1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("2")}},
	}}
	for _, tt := range []struct {
		name    string
		cluster doctor.Cluster
		running doctor.Running
		want    string
	}{
		{"nothing is prepared", bare, doctor.Running{}, "plugin ok, autoscaler warn, spot warn, quotas warn, utilization warn, sharing warn, versioning ok, idle warn"},
		{"idle GPUs", bare, doctor.Running{Busy: 0.69, BusyKnown: true}, "plugin ok, autoscaler warn, spot warn, quotas warn, utilization warn, sharing warn, versioning ok, idle warn"},
		{
			"all is prepared", ready,
			doctor.Running{Busy: 0.7, BusyKnown: true, Pools: []pool.Pool{{Name: "gpu", Max: 2}}, Rules: []string{"monitoring/gpus"}},
			"plugin ok, autoscaler ok, spot ok, quotas ok, utilization ok, sharing ok, versioning ok, idle ok",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, f := range doctor.Production(tt.cluster, &tt.running) {
				got = append(got, strings.TrimPrefix(f.Name, "production-")+" "+string(f.Status))
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// rows: JH-06
func TestQuotasOfTheCloudAreReckonedFromDeclaredPools(t *testing.T) {
	pools, err := pool.Parse("- {name: nb-g4dn-xlarge, max: 4, cpu: 4, gpus: {product: Tesla T4, count: 1}}\n- {name: gpu-t4, max: 20, gpus: {product: Tesla T4, count: 1}}\n- {name: plain, max: 3}\n")
	if err != nil {
		t.Fatal(err)
	}
	const say = "; the cloud's quotas in the region have to allow all nodes: nb-g4dn-xlarge 16 vCPUs (4 nodes of 4), 4 x T4; gpu-t4 20 x T4"
	for want, r := range map[string]doctor.Running{
		"3 pools declared that can grow" + say:   {Pools: pools},
		"Karpenter's NodePools are served" + say: {Pools: pools, Autoscaler: "Karpenter's NodePools are served"},
		"1 pool declared that can grow":          {Pools: pools[2:]},
		"Karpenter's NodePools are served":       {Autoscaler: "Karpenter's NodePools are served"},
	} {
		if got := doctor.Production(doctor.Cluster{}, &r)[1]; got.Seen != want || got.Status != finding.OK {
			t.Errorf("%s %s; want %s", got.Status, got.Seen, want)
		}
	}
}
