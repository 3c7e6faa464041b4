package cost_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cost"
)

func TestCopiesOfADay(t *testing.T) {
	rows := cost.AddDayRows([]cost.DayRow{
		{Namespace: "vision", User: "ann", Product: "A100", What: cost.Held, PartMillis: 5, Micros: 50, Currency: "USD"},
		{Namespace: "vision", User: "bob", Product: "A100", What: cost.Held, PartMillis: 1, Unpriced: 1},
		{Namespace: "gone", User: "cid", Product: "A100", What: cost.Held, PartMillis: 2, Micros: 20, Currency: "USD"},
		{Product: "A100", What: cost.Idle, PartMillis: 7, Micros: 70, Currency: "USD"},
		{Product: "A100", What: cost.Stranded, Reason: "cordoned", PartMillis: 3, Micros: 30, Currency: "USD"},
	})
	copies := cost.Copies(rows, "kube-system", func(ns string) bool { return ns != "gone" })
	if len(copies) != 2 || len(copies["vision"]) != 2 || len(copies["kube-system"]) != 3 {
		t.Errorf("the copies are %v", copies)
	}
	if diff := cmp.Diff(rows, cost.FromCopies(copies, "kube-system")); diff != "" {
		t.Errorf("put together they differ (-day +copies):\n%s", diff)
	}
	forged := slices.Clone(copies["vision"])
	copies["vision"] = append(forged, cost.DayRow{Namespace: "gone", What: cost.Held, Micros: 9, Currency: "USD"}, cost.DayRow{What: cost.Idle, Micros: 9, Currency: "USD"})
	if diff := cmp.Diff(rows, cost.FromCopies(copies, "kube-system")); diff != "" {
		t.Errorf("a namespace speaks for others (-day +copies):\n%s", diff)
	}
	if none := cost.Copies(nil, "kube-system", nil); len(none) != 1 {
		t.Errorf("a day without GPUs has the copies %v, want an empty one", none)
	}
}
