package queues

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/cost"
)

func TestASpentBudgetHoldsIfItIsAskedTo(t *testing.T) {
	for _, c := range []struct {
		name    string
		budget  *v1alpha1.QueueBudget
		percent int32
		want    bool
	}{
		{"a spent budget", &v1alpha1.QueueBudget{Amount: 1, HoldNewWork: true}, 100, true},
		{"nearly", &v1alpha1.QueueBudget{Amount: 1, HoldNewWork: true}, 99, false},
		{"a budget that is not to hold anything", &v1alpha1.QueueBudget{Amount: 1}, 300, false},
		{"the budget was removed", nil, 300, false},
	} {
		q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "red"}, Spec: v1alpha1.QueueSpec{Budget: c.budget}, Status: v1alpha1.QueueStatus{Budget: &v1alpha1.QueueBudgetStatus{Percent: c.percent}}}
		specs, _ := Specs([]*v1alpha1.Queue{q})
		if got := specs[0].Spent; got != c.want {
			t.Errorf("%s: held is %v, want %v", c.name, got, c.want)
		}
	}
	if Holds(&v1alpha1.Queue{Spec: v1alpha1.QueueSpec{Budget: &v1alpha1.QueueBudget{HoldNewWork: true}}}) {
		t.Error("a queue without a ledger holds work")
	}
}

func TestBudgets(t *testing.T) {
	queue := func(name, parent string, b *v1alpha1.QueueBudget) *v1alpha1.Queue {
		return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{Parent: parent, Budget: b}}
	}
	got := Budgets([]*v1alpha1.Queue{
		queue("vision", "research", &v1alpha1.QueueBudget{Amount: 1000.25, Currency: "EUR", WarnAt: []int32{90}}),
		queue("research", "", &v1alpha1.QueueBudget{Amount: 5000}),
		queue("vision-a", "vision", nil), queue("speech", "research", nil), queue("other", "", nil),
		queue("round", "trip", &v1alpha1.QueueBudget{Amount: 1}), queue("trip", "round", nil), queue("nothing", "", &v1alpha1.QueueBudget{}),
	})
	want := []cost.Budget{
		{Queue: "research", Under: []string{"research", "speech", "vision", "vision-a"}, Micros: 5_000_000_000, Currency: "USD", WarnAt: []int{50, 80, 100}},
		{Queue: "round", Under: []string{"round", "trip"}, Micros: 1_000_000, Currency: "USD", WarnAt: []int{50, 80, 100}},
		{Queue: "vision", Under: []string{"vision", "vision-a"}, Micros: 1_000_250_000, Currency: "EUR", WarnAt: []int{90}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("budgets differ (-want +got):\n%s", diff)
	}
}
