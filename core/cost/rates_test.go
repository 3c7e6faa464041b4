package cost

import (
	"slices"
	"testing"

	"berth.dev/berth/core/gpu"
)

// TestEveryProductHasARate holds the table to package gpu: each product once, with a
// throughput, and with a price or one that it is like.
func TestEveryProductHasARate(t *testing.T) {
	var names []string
	for _, r := range rates {
		if slices.Contains(names, r.product) {
			t.Errorf("%s has two rates", r.product)
		}
		names = append(names, r.product)
		like := slices.ContainsFunc(rates, func(o rate) bool { return o.product == r.like && o.dollars > 0 })
		if r.teraflops <= 0 || r.dollars < 0 || (r.dollars == 0) != like {
			t.Errorf("the rate of %s is not complete: %+v", r.product, r)
		}
	}
	var want []string
	for _, p := range gpu.Products() {
		want = append(want, p.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("rates are of %q\nproducts are     %q", names, want)
	}
}
