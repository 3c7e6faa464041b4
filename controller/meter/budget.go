package meter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/internal/pause"
	"berth.dev/berth/kube/queues"
)

const (
	budgetsEvery = 30 * time.Second
	meterName    = "berth-meter"   // as the field manager and source of events
	eventBudget  = "BudgetReached" // the reason of the event that a part of a budget is spent
)

// serveBudget serves GET budget: see cost.BudgetReport.
func (m *Meter) serveBudget(w http.ResponseWriter, r *http.Request) {
	now := clock()
	m.mu.Lock()
	var all []*v1alpha1.Queue
	if m.tally != nil {
		all = m.tally.queues
	}
	m.mu.Unlock()
	list, began, err := m.standings(r.Context(), all, now)
	answer(w, cost.NewBudgetReport(list, now, began), err)
}

// standings returns how the budgets of queues stand.
func (m *Meter) standings(ctx context.Context, all []*v1alpha1.Queue, now time.Time) (list []cost.BudgetStanding, began time.Time, err error) {
	began, err = m.book.Began(ctx)
	budgets := queues.Budgets(all)
	if err != nil || len(budgets) == 0 || began.IsZero() {
		return nil, began, err
	}
	recent := cost.RecentTime(now, began)
	month, err := m.book.Rows(ctx, cost.BudgetMonth(now).From, now, cost.Queue)
	if err != nil {
		return nil, began, err
	}
	lately, err := m.book.Rows(ctx, recent.From, now, cost.Queue)
	for i := range budgets {
		list = append(list, cost.StandingOf(&budgets[i], month, lately, recent, now, quota.Whole))
	}
	return list, began, err
}

// watchBudgets writes how budgets stand into the status of their Queues, and an event when a percentage is reached, until ctx ends.
func (m *Meter) watchBudgets(ctx context.Context, to client.Client) {
	told := map[types.UID]*v1alpha1.QueueBudgetStatus{} // what was written since the Queues were read
	for {
		m.mu.Lock()
		all := m.tally.queues
		m.mu.Unlock()
		now := clock()
		list, _, err := m.standings(ctx, all, now)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Budgets cannot be compared with what is spent; they are as they were")
		}
		for i := range list {
			q := queueOf(all, list[i].Queue)
			was, known := told[q.UID]
			if !known {
				was = q.Status.Budget
			}
			err := announce(ctx, to, q, was, &list[i], now)
			if err == nil {
				told[q.UID] = statusOf(&list[i])
			} else if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "How a budget stands could not be written", "queue", list[i].Queue)
			}
		}
		if !pause.For(ctx, budgetsEvery) {
			return
		}
	}
}

func queueOf(all []*v1alpha1.Queue, name string) *v1alpha1.Queue {
	for _, q := range all {
		if q.Name == name {
			return q
		}
	}
	return nil
}

// announce writes how a budget stands if it differs from what was written, and before that an event if a percentage is newly reached: one
// a month for each, as the status has what was.
func announce(ctx context.Context, to client.Client, q *v1alpha1.Queue, was *v1alpha1.QueueBudgetStatus, s *cost.BudgetStanding, now time.Time) error {
	is := statusOf(s)
	if was != nil && *was == *is {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": q.UID}, "status": map[string]any{"budget": is}})
	if err != nil {
		return err
	}
	into := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: q.Name}}
	if is.Reached > 0 && (was == nil || was.Month != is.Month || was.Reached < is.Reached) {
		if err := to.Create(ctx, budgetEvent(q, s, now), client.FieldOwner(meterName)); err != nil {
			return err
		}
	}
	return to.Status().Patch(ctx, into, client.RawPatch(types.MergePatchType, raw), client.FieldOwner(meterName))
}

// statusOf is a standing as a Queue has it.
func statusOf(s *cost.BudgetStanding) *v1alpha1.QueueBudgetStatus {
	return &v1alpha1.QueueBudgetStatus{
		Month: s.Month, Spent: money(s.SpentMicros, s.Currency), Forecast: money(s.ForecastMicros, s.Currency), Percent: int32(min(s.Percent, 1_000_000)), Reached: int32(s.Reached),
	}
}

// money is an amount for people.
func money(micros int64, currency string) string {
	return fmt.Sprintf("%.2f %s", float64(micros)/1e6, currency)
}

// budgetEvent is the event that a part of a budget is spent.
func budgetEvent(q *v1alpha1.Queue, s *cost.BudgetStanding, now time.Time) *eventsv1.Event {
	host, _ := os.Hostname() // a name for people
	kind := v1.EventTypeNormal
	if s.Percent >= 100 {
		kind = v1.EventTypeWarning
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: q.Name + "-budget-"},
		EventTime:  metav1.NewMicroTime(now), Type: kind, Reason: eventBudget, Action: "Counting",
		Note: fmt.Sprintf("the queue has spent %d%% of its budget of %s for %s: %s; it comes to %s by the end of the month if it goes on like this",
			s.Percent, money(s.BudgetMicros, s.Currency), s.Month, money(s.SpentMicros, s.Currency), money(s.ForecastMicros, s.Currency)),
		Regarding:           v1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindQueue, Name: q.Name, UID: q.UID},
		ReportingController: "berth.dev/meter", ReportingInstance: meterName + "-" + host,
	}
}
