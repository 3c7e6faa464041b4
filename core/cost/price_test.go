package cost

import (
	"strings"
	"testing"

	"berth.dev/berth/core/gpu"
)

func TestPriceOf(t *testing.T) {
	for _, c := range []struct {
		name string
		node Node
		want Quote
	}{
		{"what the node says goes first", Node{Instance: "p5.48xlarge", Written: 1_500_000, Says: true}, Quote{Micros: 1_500_000, Currency: "USD", Source: "annotation of the node"}},
		{"a node may be free", Node{Instance: "p5.48xlarge", Says: true}, Quote{Currency: "USD", Source: "annotation of the node"}},
		{"a listed instance type", Node{Instance: "p4d.24xlarge", Region: "us-east-1", Capacity: OnDemand}, Quote{Micros: 21_957_642, Currency: "USD", Source: "list price of AWS, 2026-07-20"}},
		{"what is assumed is said", Node{Instance: "p4d.24xlarge", Region: "eu-west-1"}, Quote{Micros: 21_957_642, Currency: "USD", Source: "list price of AWS, 2026-07-20", Assumed: "on-demand, the price of us-east-1"}},
		{"spot, where it is listed", Node{Instance: "g2-standard-4", Region: "us-central1", Capacity: Spot}, Quote{Micros: 397_300, Currency: "USD", Source: "list price of Google Cloud, 2026-08-01"}},
		{"spot, where it is not", Node{Instance: "p4d.24xlarge", Capacity: Spot}, Quote{Why: "no list has a spot price of instance type p4d.24xlarge"}},
		{"reserved", Node{Instance: "p4d.24xlarge", Capacity: Reserved}, Quote{Why: "what is paid for reserved capacity is in no list"}},
		{"an instance type that is in no list", Node{Instance: "x9.huge"}, Quote{Why: "no list has instance type x9.huge"}},
		{"a machine of one's own", Node{}, Quote{Why: "the node has no instance type, and no annotation with a price"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := PriceOf(&c.node, nil, at(0)); got != c.want {
				t.Errorf("the price is\n%+v, want\n%+v", got, c.want)
			}
		})
	}
}

// TestTheCatalogAgreesWithTheWeights compares the prices that both have: what a GPU is worth in a quota, and what it costs.
func TestTheCatalogAgreesWithTheWeights(t *testing.T) {
	for instance, of := range map[string]struct {
		product string
		gpus    int64
	}{
		"p4d.24xlarge": {"NVIDIA A100-SXM4-40GB", 8}, "p4de.24xlarge": {"NVIDIA A100-SXM4-80GB", 8}, "p5.48xlarge": {"NVIDIA H100 80GB HBM3", 8},
		"p5en.48xlarge": {"NVIDIA H200", 8}, "g6.xlarge": {"NVIDIA L4", 1}, "g6e.xlarge": {"NVIDIA L40S", 1},
	} {
		if _, known := gpu.Find(of.product); !known {
			t.Errorf("product %s is not known", of.product)
		}
		for _, r := range rates {
			if r.product == of.product && int64(r.dollars*1e6*float64(of.gpus)+0.5) != find(instance).onDemand {
				t.Errorf("%s costs %d in the catalog, and %v a GPU in the weights", instance, find(instance).onDemand, r.dollars)
			}
		}
	}
}

func TestTheCatalogHasEachInstanceTypeOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range catalog {
		if seen[l.instance] || l.onDemand <= 0 || l.spot > l.onDemand || strings.TrimSpace(l.region) == "" {
			t.Errorf("%+v is listed twice, or has no price or region", l)
		}
		seen[l.instance] = true
	}
}
