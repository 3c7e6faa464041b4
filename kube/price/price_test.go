package price

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cost"
)

func TestNode(t *testing.T) {
	for _, c := range []struct {
		name   string
		labels map[string]string
		price  string
		want   cost.Node
	}{
		{"an instance of AWS", map[string]string{v1.LabelInstanceTypeStable: "p4d.24xlarge", v1.LabelTopologyRegion: "us-east-1", "eks.amazonaws.com/capacityType": "ON_DEMAND"}, "", cost.Node{Instance: "p4d.24xlarge", Region: "us-east-1", Capacity: cost.OnDemand}},
		{"one that Karpenter has bought as spot", map[string]string{"karpenter.sh/capacity-type": "spot"}, "", cost.Node{Capacity: cost.Spot}},
		{"one of Google's that can be preempted", map[string]string{"cloud.google.com/gke-preemptible": "true"}, "", cost.Node{Capacity: cost.Spot}},
		{"an unknown value says nothing", map[string]string{"karpenter.sh/capacity-type": "maybe"}, "", cost.Node{}},
		{"an annotation with a price", nil, "21.957642", cost.Node{Written: 21_957_642, Says: true}},
		{"a price of 0", nil, "0", cost.Node{Says: true}},
		{"a price below 0 is none", nil, "-1", cost.Node{Unread: "-1"}},
		{"a word is none", nil, "cheap", cost.Node{Unread: "cheap"}},
		{"a pool of a cloud", map[string]string{"cloud.google.com/gke-nodepool": "a100"}, "", cost.Node{Pool: "a100"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: c.labels, Annotations: map[string]string{api.AnnotationPrice: c.price}}}
			c.want.Labels = c.labels
			if diff := cmp.Diff(&c.want, Node(n, "", 0)); diff != "" {
				t.Errorf("what is read differs (-want +got):\n%s", diff)
			}
		})
	}
}
