package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
)

// pricedLab has a node for each source of prices, and one without any.
func pricedLab(t *testing.T) *stage {
	listed := node("listed", "NVIDIA A100-SXM4-40GB", 8, "", api.ResourceGPU, 8)
	listed.Labels["node.kubernetes.io/instance-type"] = "p4d.24xlarge"
	booked := node("booked", "Tesla-T4", 4, "", api.ResourceGPU, 4)
	booked.Labels["rack"] = "r1"
	s := newStage(t, node("said", "Tesla-T4", 2, "1.955", api.ResourceGPU, 2), listed, booked, node("unpriced", "Tesla-T4", 1, "", api.ResourceGPU, 1), node("plain", "", 0, "9"))
	book := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "PriceBook", "metadata": map[string]any{"name": "lab"},
		"spec": map[string]any{"currency": "EUR", "prices": []any{map[string]any{"name": "t4", "match": map[string]any{"labels": map[string]any{"rack": "r1"}}, "perGPUHour": 1.5}}},
	}}
	if err := s.dynamic.Tracker().Create(v1alpha1.PriceBooks, book, ""); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNodesShowThePricesThatAreCharged holds berth nodes to berth price list, whose prices the ledger charges.
func TestNodesShowThePricesThatAreCharged(t *testing.T) {
	type row struct {
		Node, Name   string
		PricePerHour *float64
		Currency     string
	}
	var nodes struct {
		Items []row
		Total map[string]any
	}
	var list struct{ Items []row }
	s := pricedLab(t)
	for args, into := range map[string]any{"nodes -o json": &nodes, "price list -o json": &list} {
		if err := json.Unmarshal([]byte(s.ok(strings.Fields(args)...)), into); err != nil {
			t.Fatal(err)
		}
	}
	if len(nodes.Items) != len(list.Items) || len(list.Items) != 4 {
		t.Fatalf("nodes are %+v, and prices %+v, want 4", nodes.Items, list.Items)
	}
	want := map[string]string{"booked": "6 EUR", "listed": "21.957642 USD", "said": "1.955 USD", "unpriced": "null "}
	for i, price := range list.Items {
		n := nodes.Items[i]
		text := func(r row) string {
			raw, _ := json.Marshal(r.PricePerHour)
			return string(raw) + " " + r.Currency
		}
		if n.Node != price.Name || text(n) != text(price) || text(n) != want[n.Node] {
			t.Errorf("%s costs %q by berth nodes, and %s costs %q by berth price list, want %q", n.Node, text(n), price.Name, text(price), want[n.Node])
		}
	}
	if nodes.Total["pricePerHour"] != nil || nodes.Total["currency"] != "" {
		t.Errorf("the total of two currencies is %v", nodes.Total)
	}
	table := s.ok("nodes")
	for _, want := range []string{" 6.00 EUR", " 21.96", " 1.96", " 6.00 EUR + 23.91"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
}

func TestPricesAreOmittedIfPriceBooksCannotBeRead(t *testing.T) {
	s := pricedLab(t)
	s.dynamic.PrependReactor("list", "pricebooks", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "berth.dev", Resource: "pricebooks"}, "", nil)
	})
	stdout, stderr, code := s.run("berth", "nodes")
	if code != 0 || !strings.Contains(stderr, "warning: prices are omitted: ") || strings.Contains(stdout, "21.96") {
		t.Errorf("exit code %d, stderr %q, and\n%s", code, stderr, stdout)
	}
}
