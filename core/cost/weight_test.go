package cost_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/gpu"
)

// TestWeights lists the weight of every known product. A change here changes what every
// quota in GPU-equivalents is worth.
func TestWeights(t *testing.T) {
	const want = `
401 NVIDIA A10
1000 NVIDIA A100 80GB PCIe
800 NVIDIA A100-PCIE-40GB
800 NVIDIA A100-SXM4-40GB
1000 NVIDIA A100-SXM4-80GB
224 NVIDIA A10G
423 NVIDIA A30
4151 NVIDIA B200
5189 NVIDIA B300 SXM6 AC
4612 NVIDIA GB200
5765 NVIDIA GB300
2306 NVIDIA GH200 144G HBM3e
2005 NVIDIA GH200 480GB
247 NVIDIA GeForce RTX 4090
2005 NVIDIA H100 80GB HBM3
1693 NVIDIA H100 NVL
1533 NVIDIA H100 PCIe
2306 NVIDIA H200
1947 NVIDIA H200 NVL
235 NVIDIA L4
542 NVIDIA L40S
861 NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition
980 NVIDIA RTX PRO 6000 Blackwell Server Edition
980 NVIDIA RTX PRO 6000 Blackwell Workstation Edition
14 Tesla K80
60 Tesla P100-PCIE-16GB
153 Tesla T4
401 Tesla V100-SXM2-16GB
401 Tesla V100-SXM2-32GB
`
	var got strings.Builder
	got.WriteString("\n")
	for _, p := range gpu.Products() {
		fmt.Fprintln(&got, cost.Weight(p.Name), p.Name)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestTheReferenceHasTheWeights holds the table of docs/reference/queue.md to the weights.
func TestTheReferenceHasTheWeights(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/queue.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| product | weight |\n|---|---|\n")
	var want strings.Builder
	for _, p := range gpu.Products() {
		fmt.Fprintf(&want, "| %s | %v |\n", p.Name, float64(cost.Weight(p.Name))/cost.Unit)
	}
	if diff := cmp.Diff(want.String(), table); diff != "" {
		t.Errorf("-want +page\n%s", diff)
	}
}

func TestWeightReadsEverySpellingOfAProduct(t *testing.T) {
	for _, p := range gpu.Products() {
		for _, name := range []string{p.LabelName(), p.LabelName() + "-SHARED", p.LabelName() + "-MIG-1g.5gb", p.LabelName() + "-MIG-1g.5gb-SHARED"} {
			if got, want := cost.Weight(name), cost.Weight(p.Name); got != want {
				t.Errorf("Weight(%q) = %d, want %d as of %s", name, got, want, p.Name)
			}
		}
	}
}

func TestAProductThatIsNotKnownIsWorthOne(t *testing.T) {
	for _, name := range []string{"", "unknown", "NVIDIA-X900", "A100", "nvidia-tesla-t4"} {
		if got := cost.Weight(name); got != cost.Unit {
			t.Errorf("Weight(%q) = %d, want %d", name, got, cost.Unit)
		}
	}
}
