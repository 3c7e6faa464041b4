package crd_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/api/v1alpha1"
)

const onePrice = "  prices:\n  - name: a\n"

// TestWhatAPriceBookCanSay has books that are stored as they are, and that the Go type reads whole.
func TestWhatAPriceBookCanSay(t *testing.T) {
	j := newJudge(t, "pricebooks.berth.dev")
	for _, tt := range []struct{ name, spec string }{
		{"everything", `
  currency: EUR
  prices:
  - name: contract
    match: {pool: a100, instanceType: p4d.24xlarge, region: us-east-1, capacityType: spot, product: NVIDIA A100-SXM4-40GB, labels: {rack: r1, empty: ""}}
    from: "2026-11-01T00:00:00Z"
    perHour: 21.957642
  - {name: gpu, perGPUHour: 1.6}
  - {name: bought, onPremises: {capital: 250000, years: 4, watts: 6500, pue: 1.4, pricePerKWh: 0.25}}
`},
		{"a price of 0", onePrice + "    perHour: 0\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object, wrong := j.read(t, metaOfX+tt.spec)
			if len(wrong) > 0 {
				t.Errorf("refused:\n%s", strings.Join(wrong, "\n"))
			}
			raw, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			b := &v1alpha1.PriceBook{}
			if err := json.Unmarshal(raw, b); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			var back map[string]any
			if err := json.Unmarshal(again, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object["spec"], wholeNumbers(back["spec"])); diff != "" {
				t.Errorf("the type loses something (-stored +read):\n%s", diff)
			}
		})
	}
}

// TestWhatAPriceBookCannotSay has the sentences in which books are refused.
func TestWhatAPriceBookCannotSay(t *testing.T) {
	j := newJudge(t, "pricebooks.berth.dev")
	for _, tt := range []struct{ name, spec, want string }{
		{"no prices", "  prices: []\n", `spec.prices: Invalid value: 0: spec.prices in body should have at least 1 items`},
		{"a price without an amount", onePrice, `spec.prices[0]: Invalid value: write one of perHour, perGPUHour, and onPremises`},
		{"a price with two", onePrice + "    perHour: 1\n    perGPUHour: 1\n", `spec.prices[0]: Invalid value: write one of perHour, perGPUHour, and onPremises`},
		{"a negative price", onePrice + "    perHour: -0.5\n", `spec.prices[0].perHour: Invalid value: -0.5: a price is not negative; write 0 for what costs nothing`},
		{"an absurd price", onePrice + "    perGPUHour: 10000001\n", `spec.prices[0].perGPUHour: Invalid value: 10000001: more than 10000000; write the price of an hour`},
		{"a price twice", "  prices: [{name: a, perHour: 1}, {name: a, perHour: 2}]\n", `spec.prices[1]: Duplicate value: {"name":"a"}`},
		{"a currency that is a sign", "  currency: $\n" + onePrice + "    perHour: 1\n", `spec.currency: Invalid value: "$": not a currency; write three capital letters, such as USD or EUR`},
		{"a capacity type of a cloud", onePrice + "    match: {capacityType: SPOT}\n    perHour: 1\n", `spec.prices[0].match.capacityType: Unsupported value: "SPOT": supported values: "on-demand", "spot", "reserved"`},
		{"a node that is never used", onePrice + "    onPremises: {capital: 1, years: 0}\n", `spec.prices[0].onPremises.years: Invalid value: 0: write for how many years the node is used, more than 0 and at most 100`},
		{"a PUE below 1", onePrice + "    onPremises: {capital: 1, years: 1, pue: 0.5}\n", `spec.prices[0].onPremises.pue: Invalid value: 0.5: a PUE is from 1 to 10; 1 is that cooling takes nothing`},
		{"a day that is none", onePrice + "    perHour: 1\n    from: soon\n", `spec.prices[0].from: Invalid value: "soon": spec.prices[0].from in body must be of type date-time: "soon"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, wrong := j.read(t, metaOfX+tt.spec)
			if diff := cmp.Diff(tt.want, strings.Join(wrong, "\n")); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
