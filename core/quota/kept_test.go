package quota_test

import (
	"testing"

	"berth.dev/berth/core/quota"
)

func TestATreeNeverHoldsMoreThanItsRootHas(t *testing.T) {
	keeps := func(nominal, lending int64) quota.Quota {
		return quota.Quota{Resource: quota.GPUs, Nominal: nominal * whole, Borrowing: quota.Unlimited, Lending: lending * whole}
	}
	for name, c := range map[string]struct {
		specs []quota.Spec
		order []string
	}{
		"what a queue keeps is not lent by the queue above it": {[]quota.Spec{
			{Name: "org", Quotas: []quota.Quota{gpus(8)}},
			{Name: "lab", Parent: "org", Quotas: []quota.Quota{gpus(8)}},
			{Name: "red", Parent: "lab", Quotas: []quota.Quota{keeps(8, 0)}},
			{Name: "blue", Parent: "org", Quotas: []quota.Quota{gpus(0)}},
		}, []string{"blue", "red"}},
		"a queue that keeps all has no more for itself than its queues leave": {[]quota.Spec{
			{Name: "org", Quotas: []quota.Quota{gpus(8)}},
			{Name: "lab", Parent: "org", Quotas: []quota.Quota{keeps(8, 0)}},
			{Name: "red", Parent: "lab", Quotas: []quota.Quota{keeps(4, 0)}},
		}, []string{"lab", "red"}},
		"a queue that keeps some": {[]quota.Spec{
			{Name: "org", Quotas: []quota.Quota{gpus(8)}},
			{Name: "lab", Parent: "org", Quotas: []quota.Quota{keeps(6, 3)}},
			{Name: "red", Parent: "lab", Quotas: []quota.Quota{keeps(4, 2)}},
			{Name: "blue", Parent: "org", Quotas: []quota.Quota{gpus(2)}},
		}, []string{"blue", "lab", "red"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := quota.NewBook(quota.NewTree(c.specs))
			for round := range 2 {
				for _, queue := range c.order {
					for k := range 20 {
						w := ask(queue+string(rune('a'+k+20*round)), queue, "", 1)
						if b.Try(w).Cause == quota.None {
							holds(b, w, "")
						}
					}
				}
			}
			if got := len(b.Holders()); got != 8 {
				t.Errorf("pods hold %d GPUs, and the root has 8", got)
			}
		})
	}
}
