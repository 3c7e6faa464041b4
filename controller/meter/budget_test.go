package meter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/kube/queues"
)

// TestEachPercentageIsAnnouncedOnce has a queue spend more and more.
func TestEachPercentageIsAnnouncedOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "red", UID: "q"}, Spec: v1alpha1.QueueSpec{Budget: &v1alpha1.QueueBudget{Amount: 10}}}
	to := fake.NewClientBuilder().WithScheme(scheme).WithObjects(q).WithStatusSubresource(q).Build()
	r := newRig(t)
	m := New(r.book, Options{})
	r.node(aNode("n", 1, 0))
	r.pod(aPod("a", "n", 1, 0)) // one dollar an hour
	r.flush()
	for _, hour := range []int{1, 4, 5, 6, 9, 11} {
		r.clock = at(60 * hour)
		r.flush()
		now := &v1alpha1.Queue{}
		if err := to.Get(t.Context(), client.ObjectKeyFromObject(q), now); err != nil {
			t.Fatal(err)
		}
		list, _, err := m.standings(t.Context(), []*v1alpha1.Queue{now}, r.clock)
		if err != nil || len(list) != 1 {
			t.Fatalf("the standings are %+v, %v", list, err)
		}
		if err := announce(t.Context(), to, now, now.Status.Budget, &list[0], r.clock); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := told(t.Context(), t, to), "50% of its budget; 90% of its budget; 110% of its budget"; got != want {
		t.Errorf("told is %q, want %q", got, want)
	}
	now := &v1alpha1.Queue{}
	if err := to.Get(t.Context(), client.ObjectKeyFromObject(q), now); err != nil {
		t.Fatal(err)
	}
	if b := now.Status.Budget; b == nil || b.Spent != "11.00 USD" || b.Percent != 110 || b.Reached != 100 || b.Month != "2026-11" {
		t.Errorf("the status is %+v", b)
	}
}

// TestABudgetBeginsAgainWithTheMonth has a queue that has spent its budget by the last second of November.
func TestABudgetBeginsAgainWithTheMonth(t *testing.T) {
	december := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	r := newRig(t)
	m := New(r.book, Options{})
	r.node(aNode("n", 1, 0))
	r.pod(aPod("a", "n", 1, 0)) // one dollar an hour
	r.flush()
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "red", UID: "q"}, Spec: v1alpha1.QueueSpec{Budget: &v1alpha1.QueueBudget{Amount: 10, HoldNewWork: true}}}
	for _, c := range []struct {
		now  time.Time
		want string
		hold bool
	}{
		{december.Add(-time.Second), "2026-11 100", true},
		{december, "2026-12 0", false},
		{december.Add(time.Second), "2026-12 0", false},
		{december.Add(9 * time.Hour), "2026-12 80", false},
		{december.Add(10 * time.Hour), "2026-12 100", true},
	} {
		r.clock = c.now
		r.flush()
		list, _, err := m.standings(t.Context(), []*v1alpha1.Queue{q}, c.now)
		if err != nil || len(list) != 1 {
			t.Fatalf("%v: the standings are %+v, %v", c.now, list, err)
		}
		if got := fmt.Sprintf("%s %d", list[0].Month, list[0].Reached); got != c.want {
			t.Errorf("%v: the month and the percentage are %s, want %s: %+v", c.now, got, c.want, list[0])
		}
		if list[0].ForecastMicros < list[0].SpentMicros || list[0].RunsOut == nil {
			t.Errorf("%v: the forecast is %+v", c.now, list[0])
		}
		if q.Status.Budget = statusOf(&list[0]); queues.Holds(q) != c.hold {
			t.Errorf("%v: it holds new work %v, want %v", c.now, !c.hold, c.hold)
		}
	}
}

// told lists the beginnings of the events on budgets.
func told(ctx context.Context, t *testing.T, from client.Client) string {
	list := &eventsv1.EventList{}
	if err := from.List(ctx, list); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var out []string
	for i := range list.Items {
		text, _, _ := strings.Cut(list.Items[i].Note, " of 10.00 USD")
		out = append(out, strings.TrimPrefix(text, "the queue has spent "))
	}
	return strings.Join(out, "; ")
}

func TestAQueueBelowCountsForTheBudgetAbove(t *testing.T) {
	r := newRig(t)
	m := New(r.book, Options{})
	r.node(aNode("n", 2, 0))
	r.pod(aPod("a", "n", 1, 0))
	r.flush()
	r.clock = at(120)
	r.flush()
	all := []*v1alpha1.Queue{
		{ObjectMeta: metav1.ObjectMeta{Name: "research"}, Spec: v1alpha1.QueueSpec{Budget: &v1alpha1.QueueBudget{Amount: 100}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "red"}, Spec: v1alpha1.QueueSpec{Parent: "research"}},
	}
	list, began, err := m.standings(t.Context(), all, r.clock)
	if err != nil {
		t.Fatal(err)
	}
	report := cost.NewBudgetReport(list, r.clock, began)
	if got, want := fmt.Sprintf("%s %d", report.Rows[0].Queue, report.Rows[0].SpentMicros), "research 2000000"; got != want || !began.Equal(at(0)) {
		t.Errorf("the report is %s, want %s; the ledger began at %v", got, want, began)
	}
}
