package price

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/cost"
)

func TestRules(t *testing.T) {
	from := metav1.Date(2026, 11, 1, 0, 0, 0, 0, metav1.Now().UTC().Location())
	book := func(name, currency string, prices ...v1alpha1.PriceBookPrice) *v1alpha1.PriceBook {
		return &v1alpha1.PriceBook{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PriceBookSpec{Currency: currency, Prices: prices}}
	}
	got := Rules([]*v1alpha1.PriceBook{
		book("lab", "EUR",
			v1alpha1.PriceBookPrice{Name: "a100", Match: v1alpha1.PriceBookMatch{Pool: "a", Product: "NVIDIA A100-SXM4-40GB"}, From: &from, PerHour: new(21.957642)},
			v1alpha1.PriceBookPrice{Name: "bought", OnPremises: &v1alpha1.PriceBookOnPremises{Capital: 250_000, Years: 4, Watts: 6500, PUE: 1.4, PricePerKWh: 0.25}}),
		book("other", "",
			v1alpha1.PriceBookPrice{Name: "gpu", Match: v1alpha1.PriceBookMatch{Product: "NVIDIA-A30-MIG-1g.6gb-SHARED", CapacityType: "spot"}, PerGPUHour: new(0.1)},
			v1alpha1.PriceBookPrice{Name: "negative", PerHour: new(-1.0)}, v1alpha1.PriceBookPrice{Name: "absurd", PerHour: new(1e8)}, v1alpha1.PriceBookPrice{Name: "nothing"},
			v1alpha1.PriceBookPrice{Name: "no-years", OnPremises: &v1alpha1.PriceBookOnPremises{Capital: 1}}),
	})
	want := cost.Rules{
		{Book: "lab", Name: "a100", Match: cost.Match{Pool: "a", Product: "NVIDIA-A100-SXM4-40GB"}, From: from.Time, Micros: 21_957_642, Currency: "EUR"},
		{Book: "other", Name: "gpu", Match: cost.Match{Product: "NVIDIA-A30", Capacity: cost.Spot}, Micros: 100_000, PerGPU: true, Currency: "USD"},
		{Book: "lab", Name: "bought", Micros: 9_409_703, Currency: "EUR", Remark: "250000 over 4 years, 6500 W at 0.25 a kWh with PUE 1.4"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules differ (-want +got):\n%s", diff)
	}
}
