package cost

import (
	"fmt"
	"testing"
)

func TestRerate(t *testing.T) {
	n := &Node{Says: true, Written: 9_000_000, Pool: "a"}
	rules := NewRules([]Rule{{Book: "b", Name: "old", Micros: 2_000_000, Currency: "USD"}, {Book: "b", Name: "new", From: at(60), Micros: 3_000_000, Currency: "USD"}})
	list := Price{From: at(0), Micros: 1_000_000, Currency: "USD", Source: "list"}
	for _, c := range []struct {
		name     string
		old      Rate
		from, to int
		want     string
	}{
		{"the whole of a rate, with a price that begins within it", Rate{list, at(120)}, -60, 200, "0-60 2, 60-120 3"},
		{"a part", Rate{list, at(120)}, 30, 90, "0-30 1, 30-60 2, 60-90 3, 90-120 1"},
		{"none of it", Rate{list, at(120)}, 120, 200, "0-120 1"},
		{"what the node said itself stays", Rate{Price{From: at(0), Micros: 5_000_000, Currency: "USD", Source: annotation}, at(120)}, 0, 200, "0-120 5"},
		{"a rate that is right already", Rate{Price{From: at(0), Micros: 2_000_000, Currency: "USD", Source: "PriceBook b, old"}, at(50)}, 0, 200, "0-50 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for i, r := range Rerate(n, rules, c.old, at(c.from), at(c.to)) {
				if i > 0 {
					got += ", "
				}
				got += fmt.Sprintf("%v-%v %v", r.From.Sub(epoch).Minutes(), r.To.Sub(epoch).Minutes(), r.Micros/million)
			}
			if got != c.want {
				t.Errorf("the rates are %s, want %s", got, c.want)
			}
		})
	}
}
