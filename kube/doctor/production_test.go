package doctor_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/doctor"
	"berth.dev/berth/kube/kubetest"
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
			doctor.Running{Busy: 0.7, BusyKnown: true, Pools: 1, Rules: []string{"monitoring/gpus"}},
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
