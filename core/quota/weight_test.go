package quota

import (
	"math/big"
	"testing"
)

func TestWeighted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		parts   int64
		product string
		want    int64
	}{
		{"a whole A100-80GB is one GPU-equivalent", Whole, "NVIDIA-A100-SXM4-80GB", Whole},
		{"an H100 is 2.005", Whole, "NVIDIA-H100-80GB-HBM3", 1445043},
		{"a seventh of an A100-40GB is rounded down", Whole / 7, "NVIDIA A100-SXM4-40GB", 82368},
		{"a product that is not known yet counts as it is", 5 * Whole, "", 5 * Whole},
		{"an unknown product counts as it is", 5 * Whole, "X900", 5 * Whole},
		{"nothing is nothing", 0, "Tesla-T4", 0},
		{"a million million B300 do not overflow", 1_000_000_000_000 * Whole, "NVIDIA B300 SXM6 AC", 3739816080000000000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := weighted(tt.parts, tt.product); got != tt.want {
				t.Errorf("weighted(%d, %q) = %d, want %d", tt.parts, tt.product, got, tt.want)
			}
		})
	}
}

// TestWeightedIsExact compares with arithmetic that knows no overflow.
func TestWeightedIsExact(t *testing.T) {
	for parts := int64(1); parts < 1<<50; parts = parts*3 + 7 {
		want := new(big.Int).Mul(big.NewInt(parts), big.NewInt(2005))
		want.Quo(want, big.NewInt(1000))
		if got := weighted(parts, "NVIDIA H100 80GB HBM3"); got != want.Int64() {
			t.Errorf("weighted(%d) = %d, want %s", parts, got, want)
		}
	}
}
