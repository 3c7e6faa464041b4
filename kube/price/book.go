package price

import (
	"cmp"
	"math"
	"strconv"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/gpu"
)

// Rules reads what PriceBooks say of nodes. Prices that the definition of PriceBook refuses are left out.
func Rules(books []*v1alpha1.PriceBook) cost.Rules {
	var list []cost.Rule
	for _, b := range books {
		for i := range b.Spec.Prices {
			if r, ok := rule(&b.Spec.Prices[i]); ok {
				r.Book, r.Currency = b.Name, cmp.Or(b.Spec.Currency, cost.Dollar)
				list = append(list, r)
			}
		}
	}
	return cost.NewRules(list)
}

// rule reads one price, without what its book says.
func rule(p *v1alpha1.PriceBookPrice) (r cost.Rule, ok bool) {
	r = cost.Rule{Name: p.Name, Match: cost.Match{
		Pool: p.Match.Pool, Instance: p.Match.InstanceType, Region: p.Match.Region, Product: productOf(p.Match.Product),
		Capacity: cost.Capacity(p.Match.CapacityType), Labels: p.Match.Labels,
	}}
	if p.From != nil {
		r.From = p.From.UTC()
	}
	switch {
	case p.PerHour != nil:
		r.Micros, ok = millionths(*p.PerHour)
	case p.PerGPUHour != nil:
		r.PerGPU = true
		r.Micros, ok = millionths(*p.PerGPUHour)
	case p.OnPremises != nil:
		o, read := onPremises(p.OnPremises)
		r.Micros, r.Remark, ok = o.Micros(), o.String(), read && o.Years > 0
	}
	return r, ok && r.Micros <= cost.MostMicros
}

func onPremises(p *v1alpha1.PriceBookOnPremises) (o cost.OnPremises, ok bool) {
	ok = true
	for _, f := range []struct {
		from float64
		to   *int64
	}{{p.Capital, &o.Capital}, {p.Years, &o.Years}, {p.Watts, &o.Watts}, {p.PUE, &o.PUE}, {p.PricePerKWh, &o.PricePerKWh}} {
		var read bool
		*f.to, read = millionths(f.from)
		ok = ok && read
	}
	return o, ok
}

// millionths reads a number as it was written: the shortest decimal that means the same.
func millionths(f float64) (int64, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, false
	}
	return decimal(strconv.FormatFloat(f, 'f', -1, 64))
}

// productOf is a product as its label has it, from one of its names.
func productOf(name string) string {
	if p, known := gpu.Find(name); known {
		return p.LabelName()
	}
	return gpu.BareLabel(name)
}
