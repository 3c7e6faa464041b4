package cost

import (
	"strings"
	"testing"
)

// ruled is a node that much can be said of.
var ruled = Node{Instance: "p4d.24xlarge", Region: "us-east-1", Pool: "a100", Product: "NVIDIA-A100-SXM4-40GB", GPUs: 8, Labels: map[string]string{"rack": "r1"}}

func TestRules(t *testing.T) {
	any3 := Rule{Book: "lab", Name: "any", Micros: 3_000_000, Currency: "EUR"}
	pool := Rule{Book: "lab", Name: "pool", Match: Match{Pool: "a100"}, Micros: 5_000_000, Currency: "USD"}
	both := Rule{Book: "lab", Name: "both", Match: Match{Pool: "a100", Labels: map[string]string{"rack": "r1"}}, Micros: 6_000_000, Currency: "USD"}
	later := pool
	later.Book, later.Name, later.From, later.Micros = "new", "later", at(30), 7_000_000
	for _, c := range []struct {
		name   string
		node   Node
		rules  []Rule
		minute int
		want   string
	}{
		{"a rule goes before the list price", ruled, []Rule{any3}, 0, "3 EUR PriceBook lab, any"},
		{"the rule that asks for most goes first", ruled, []Rule{any3, both, pool}, 0, "6 USD PriceBook lab, both"},
		{"a rule that does not fit does not count", Node{Pool: "other"}, []Rule{pool, any3}, 0, "3 EUR PriceBook lab, any"},
		{"of two that ask for the same, the one that counts from later goes first", ruled, []Rule{pool, later}, 30, "7 USD PriceBook new, later"},
		{"but not before it counts", ruled, []Rule{pool, later}, 29, "5 USD PriceBook lab, pool"},
		{"a price for each GPU", ruled, []Rule{{Book: "b", Name: "gpu", Micros: 1_500_000, PerGPU: true, Currency: "USD"}}, 0, "12 USD PriceBook b, gpu"},
		{"a price of 0 is a price", ruled, []Rule{{Book: "b", Name: "free", Currency: "USD"}}, 0, "0 USD PriceBook b, free"},
		{"a node that does not say how it was bought is on-demand", ruled, []Rule{{Book: "b", Name: "od", Match: Match{Capacity: OnDemand}, Micros: million, Currency: "USD"}}, 0, "1 USD PriceBook b, od (on-demand)"},
		{"and not spot", ruled, []Rule{{Book: "b", Name: "spot", Match: Match{Capacity: Spot}, Currency: "USD"}}, 0, "21.957642 USD list price of AWS, 2026-07-20 (on-demand)"},
		{"what the node says goes before all rules", Node{Says: true, Written: 2_000_000}, []Rule{any3}, 0, "2 USD annotation of the node"},
		{"what it says in vain is said", Node{Unread: "cheap"}, []Rule{any3}, 0, `3 EUR PriceBook lab, any (its annotation "cheap" is not a price)`},
		{"a rule for another product", ruled, []Rule{{Book: "b", Name: "h100", Match: Match{Product: "NVIDIA-H100-80GB-HBM3"}}}, 0, "21.957642 USD list price of AWS, 2026-07-20 (on-demand)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := NewRules(c.rules)
			q := PriceOf(&c.node, rules, at(c.minute))
			got := decimal(q.Micros) + " " + q.Currency + " " + q.Source
			if q.Assumed != "" {
				got += " (" + q.Assumed + ")"
			}
			if got != c.want {
				t.Errorf("the price is %s, want %s", got, c.want)
			}
			var counts []string
			for _, from := range Candidates(&c.node, rules, at(c.minute)) {
				if from.Counts != (from.Source != Unpriced && from.Why == "") {
					t.Errorf("%s counts: %v, and why it does not is %q", from.Name, from.Counts, from.Why)
				}
				if from.Counts {
					counts = append(counts, from.Source)
				}
			}
			if len(counts) != 1 || counts[0] != q.Source {
				t.Errorf("of the candidates count %q, want %s", counts, q.Source)
			}
		})
	}
}

func TestCandidatesSayWhyNot(t *testing.T) {
	rules := NewRules([]Rule{
		{Book: "lab", Name: "pool", Match: Match{Pool: "h100"}, Micros: 1, Currency: "USD"},
		{Book: "lab", Name: "rack", Match: Match{Labels: map[string]string{"rack": "r2", "row": "a"}}, Micros: 1, Currency: "USD"},
		{Book: "lab", Name: "row", Match: Match{Labels: map[string]string{"row": "a"}}, Micros: 1, Currency: "USD"},
		{Book: "lab", Name: "soon", From: at(60), Micros: 1, Currency: "USD"},
		{Book: "lab", Name: "any", Micros: 4_000_000, Currency: "USD"},
	})
	var got []string
	for _, c := range Candidates(&ruled, rules, at(0)) {
		got = append(got, c.Name+": "+c.Why)
	}
	want := []string{
		"annotation of the node: the node has none",
		"PriceBook lab, rack: the node's label rack is r1, and r2 is asked for",
		"PriceBook lab, pool: the node's pool is a100, and h100 is asked for",
		"PriceBook lab, row: the node has no label row, and a is asked for",
		"PriceBook lab, soon: counts from 2026-11-02T10:00:00Z",
		"PriceBook lab, any: ",
		"list prices: PriceBook lab, any goes first",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("the candidates are\n%s\nwant\n%s", g, w)
	}
	if next := rules.Next(at(0)); !next.Equal(at(60)) {
		t.Errorf("the next price counts from %v, want %v", next, at(60))
	}
	if next := rules.Next(at(60)); !next.IsZero() {
		t.Errorf("after the last the next counts from %v", next)
	}
}

func TestOnPremises(t *testing.T) {
	for _, c := range []struct {
		name string
		of   OnPremises
		want int64
		text string
	}{
		// 250000 / (4 * 8760) = 7.134703; 6.5 kW * 1.4 * 0.25 = 2.275
		{"a node that was bought, and its power", OnPremises{Capital: 250_000 * million, Years: 4 * million, Watts: 6500 * million, PUE: 1_400_000, PricePerKWh: 250_000}, 9_409_703, "250000 over 4 years, 6500 W at 0.25 a kWh with PUE 1.4"},
		{"without power", OnPremises{Capital: 8760 * million, Years: million}, million, "8760 over 1 years"},
		{"power alone, PUE 1", OnPremises{Years: million, Watts: 1000 * million, PricePerKWh: 300_000}, 300_000, "0 over 1 years, 1000 W at 0.3 a kWh"},
		{"half a year", OnPremises{Capital: 8760 * million, Years: 500_000}, 2 * million, "8760 over 0.5 years"},
		{"the largest that is allowed", OnPremises{Capital: 1e9 * million, Years: 1, Watts: 1e6 * million, PUE: 10 * million, PricePerKWh: 1e9 * million}, MostMicros, "1000000000 over 0.000001 years, 1000000 W at 1000000000 a kWh with PUE 10"},
		{"no years is not a price", OnPremises{Capital: million}, 0, "1 over 0 years"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.of.Micros(); got != c.want {
				t.Errorf("an hour costs %d, want %d", got, c.want)
			}
			if got := c.of.String(); got != c.text {
				t.Errorf("its text is %q, want %q", got, c.text)
			}
		})
	}
}
