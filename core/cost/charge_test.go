package cost

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"berth.dev/berth/core/usage"
)

const whole = 720720

var epoch = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }

func TestCharges(t *testing.T) {
	up := usage.Up{Parts: 2 * whole, From: at(0), To: at(120)}
	dollar := []Price{{From: at(-60), Micros: 1_000_000, Source: "list"}}
	for _, c := range []struct {
		name   string
		up     usage.Up
		holds  []usage.Hold
		prices []Price
		want   string
	}{
		{"an idle node costs its price", up, nil, dollar, "0-60 idle 1000000; 60-120 idle 1000000"},
		{"who holds half of it pays half", up, []usage.Hold{{Pod: "a", Parts: whole, From: at(0), To: at(120)}}, dollar, "0-60 idle 500000; 0-60 a 500000; 60-120 idle 500000; 60-120 a 500000"},
		{"a pod that ends within an hour pays its part", up, []usage.Hold{{Pod: "a", Parts: 2 * whole, From: at(0), To: at(15)}}, dollar, "0-60 idle 750000; 0-60 a 250000; 60-120 idle 1000000"},
		{"an hour with two prices", up, nil, []Price{dollar[0], {From: at(30), Micros: 3_000_000, Source: "list"}}, "0-30 idle 500000; 30-60 idle 1500000; 60-120 idle 3000000"},
		{"a node without a price is counted, and costs nothing", up, nil, []Price{{From: at(-60), Micros: 5}}, "0-60 idle 0; 60-120 idle 0"},
		{"before the first price nothing is charged", up, nil, []Price{{From: at(60), Micros: 7, Source: "list"}}, "0-60 idle 0; 60-120 idle 7"},
		{"three thirds of a price that cannot be divided", usage.Up{Parts: 3 * whole, From: at(0), To: at(60)}, []usage.Hold{
			{Pod: "a", Parts: whole, From: at(0), To: at(60)}, {Pod: "b", Parts: whole, From: at(0), To: at(60)}, {Pod: "c", Parts: whole, From: at(0), To: at(60)},
		}, []Price{{From: at(0), Micros: 100, Source: "list"}}, "0-60 a 34; 0-60 b 33; 0-60 c 33"},
		{"what is rounded off at one price is in the charge of the next", usage.Up{Parts: whole, From: at(0), To: at(60)}, nil, []Price{{From: at(0), Micros: 3, Source: "list"}, {From: at(10), Micros: 3, Source: "again"}, {From: at(50), Micros: 3, Source: "again"}}, "0-10 idle 0; 10-50 idle 2; 50-60 idle 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for i, ch := range Charges(usage.Spans(c.up, c.holds, nil, at(1000)), c.prices) {
				if i > 0 {
					got += "; "
				}
				name := ch.Pod + string(ch.Reason)
				if ch.Line == usage.Idle {
					name = "idle"
				}
				got += fmt.Sprintf("%v-%v %s %d", ch.From.Sub(epoch).Minutes(), ch.To.Sub(epoch).Minutes(), name, ch.Micros)
			}
			if got != c.want {
				t.Errorf("the charges are\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// TestChargesAreThePrice checks on random nodes that all charges of an hour are the price of its time to the
// millionth, that none is below 0, and that each is what exact arithmetic gives, within one millionth for each time
// that it was divided.
func TestChargesAreThePrice(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 21))
		second := func() time.Time { return epoch.Add(time.Duration(r.IntN(5*3600)) * time.Second) }
		up := usage.Up{Parts: int64(1+r.IntN(8)) * whole, From: second()}
		up.To = up.From.Add(time.Duration(1+r.IntN(4*3600)) * time.Second)
		var holds []usage.Hold
		for k := range r.IntN(10) {
			from := second()
			holds = append(holds, usage.Hold{Pod: fmt.Sprint("p", k), Parts: whole / int64(1+r.IntN(7)), From: from, To: from.Add(time.Duration(r.IntN(7200)) * time.Second)})
		}
		prices := []Price{{From: epoch, Micros: r.Int64N(100_000_000), Source: "list"}}
		for range r.IntN(4) {
			prices = append(prices, Price{From: prices[len(prices)-1].From.Add(time.Duration(r.IntN(5000)) * time.Second), Micros: r.Int64N(100_000_000), Source: "list"})
		}
		spans := usage.Spans(up, holds, nil, epoch.Add(100*time.Hour))
		type node struct {
			micros int64
			exact  *big.Rat
		}
		hours, millis := map[time.Time]*node{}, int64(0)
		for _, c := range Charges(spans, prices) {
			if c.Micros < 0 || !c.From.Before(c.To) || c.Price < 0 || c.To.Sub(c.From.Truncate(hour)) > hour {
				t.Fatalf("seed %d: the charge is %+v", seed, c)
			}
			h := hours[c.From.Truncate(hour)]
			if h == nil {
				h = &node{exact: new(big.Rat)}
				hours[c.From.Truncate(hour)] = h
			}
			h.micros += c.Micros
			millis += c.PartMillis
			exact := big.NewRat(prices[c.Price].Micros, hour.Milliseconds())
			exact.Mul(exact, big.NewRat(c.PartMillis, up.Parts))
			h.exact.Add(h.exact, exact)
			if d, _ := new(big.Rat).Sub(exact, new(big.Rat).SetInt64(c.Micros)).Float64(); d < -2 || d > 2 {
				t.Fatalf("seed %d: a charge of %d is %v by exact arithmetic", seed, c.Micros, exact)
			}
		}
		for at, h := range hours {
			floor := new(big.Int).Quo(h.exact.Num(), h.exact.Denom())
			if floor.Int64() != h.micros {
				t.Fatalf("seed %d: the charges of the hour from %v are %d, want %v rounded down", seed, at, h.micros, h.exact.FloatString(3))
			}
		}
		if want := up.Parts * up.To.Sub(up.From).Milliseconds(); millis != want {
			t.Fatalf("seed %d: %d part-milliseconds are charged, want %d", seed, millis, want)
		}
	}
}
