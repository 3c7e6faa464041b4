package doctor

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/kubetest"
)

func TestPrices(t *testing.T) {
	node := func(name, price string) *v1.Node {
		n := kubetest.Inventory(name, kubetest.A100s(name, 2), api.ResourceGPU, 2)
		n.Annotations[api.AnnotationPrice] = price
		return n
	}
	plain := kubetest.Foreign("plain", map[string]string{})
	for _, c := range []struct {
		name  string
		nodes []*v1.Node
		rules []cost.Rule
		books bool
		want  string
	}{
		{
			"a node without a price",
			[]*v1.Node{node("a", "3"), node("b", ""), node("c", ""), plain},
			nil, true,
			"no price is known of 2 nodes with GPUs (b, c): the node has no instance type, and no annotation with a price; their GPU-hours are counted, and cost nothing",
		},
		{"a PriceBook prices all", []*v1.Node{node("a", "3"), node("b", "")}, []cost.Rule{{Book: "x", Name: "any", Micros: 1, Currency: "USD"}}, true, "2 nodes with GPUs, each with a price"},
		{
			"a price that cannot be read",
			[]*v1.Node{node("a", "cheap")},
			nil, true,
			`no price is known of 1 node with GPUs (a): its annotation "cheap" is not a price, the node has no instance type, and no annotation with a price; their GPU-hours are counted, and cost nothing`,
		},
		{"a cluster without PriceBooks", []*v1.Node{node("b", "")}, nil, false, ""},
		{"no GPUs", []*v1.Node{plain}, nil, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := look(Cluster{Nodes: c.nodes, PriceBooks: c.books, Prices: cost.NewRules(c.rules), Now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)})
			got := ""
			for _, f := range e.prices() {
				got += f.Seen
				if (f.Status == finding.OK) != (f.Do == "") {
					t.Errorf("%+v: what to do is missing, or there is nothing to do", f)
				}
			}
			if got != c.want {
				t.Errorf("found is %q, want %q", got, c.want)
			}
		})
	}
}
