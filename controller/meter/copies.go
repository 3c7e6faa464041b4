package meter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/ledger"
)

const (
	usageDaysHome = api.MetricsNamespace // where copies are of what no namespace keeps
	usageDaysPage = 500                  // so many objects are read at once
)

// usageDays are the GPUUsageDays of a cluster, by their keys.
type usageDays map[client.ObjectKey]*v1alpha1.GPUUsageDay

// readUsageDays reads those that are there. served is whether the API server knows the kind and lets the meter use it.
func readUsageDays(ctx context.Context, from client.Client) (days usageDays, served bool, err error) {
	if _, err := from.RESTMapper().KindFor(v1alpha1.GPUUsageDays); meta.IsNoMatchError(err) {
		return nil, false, nil
	}
	days = usageDays{}
	list := &v1alpha1.GPUUsageDayList{}
	for next := ""; ; {
		err := from.List(ctx, list, client.Limit(usageDaysPage), client.Continue(next))
		if apierrors.IsForbidden(err) {
			klog.FromContext(ctx).Error(err, "GPUUsageDays are defined, but cannot be used; deploy/gpu-usage-days.yaml has the permissions")
			return nil, false, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("list GPUUsageDays: %w", err)
		}
		for i := range list.Items {
			days[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
		}
		if next = list.Continue; next == "" {
			return days, true, nil
		}
	}
}

// restore fills a book that is empty from the GPUUsageDays of the cluster, or days of it whose sums were lost.
func (m *Meter) restore(ctx context.Context) error {
	began, err := m.book.Began(ctx)
	if err != nil {
		return err
	}
	lost, err := m.book.Lost(ctx)
	if err != nil || !began.IsZero() && len(lost) == 0 {
		return err
	}
	days, served, err := readUsageDays(ctx, m.copies)
	if err != nil || !served {
		return err
	}
	if began.IsZero() {
		n, err := m.book.Restore(ctx, days.copies(), time.Now().UTC())
		if n > 0 {
			klog.FromContext(ctx).Info("The ledger was empty: days were restored from GPUUsageDays", "days", n)
		}
		return err
	}
	n, err := m.book.Repair(ctx, days.copies())
	klog.FromContext(ctx).Info("The ledger was damaged: sums of days were restored from GPUUsageDays", "lost", len(lost), "restored", n)
	return err
}

// copies puts days together. Objects whose names are not days are none of the meter's.
func (u usageDays) copies() (out []ledger.Copy) {
	in := map[time.Time]map[string][]cost.DayRow{}
	sums := map[time.Time]string{}
	for key, object := range u {
		day, err := time.Parse(time.DateOnly, key.Name)
		if err != nil {
			continue
		}
		if in[day] == nil {
			in[day] = map[string][]cost.DayRow{}
		}
		if object.Spec.PartsPerGPU == quota.Whole { // else the rows are missing, and the sum shows it
			in[day][key.Namespace] = rowsOf(object)
		}
		if key.Namespace == usageDaysHome {
			sums[day] = object.Spec.Sums
		}
	}
	for day, copies := range in {
		out = append(out, ledger.Copy{Day: day, Rows: cost.FromCopies(copies, usageDaysHome), Sums: sums[day]})
	}
	return out
}

// copyDays has a copy of each of the last days that are closed where it belongs, and removes those that are older.
// Days that the book does not have stay as they are.
func (m *Meter) copyDays(ctx context.Context) error {
	if m.o.UsageDays == 0 {
		return nil
	}
	have, served, err := readUsageDays(ctx, m.copies)
	if err != nil || !served {
		return err
	}
	since := m.tally.now().Truncate(cost.Day).AddDate(0, 0, -m.o.UsageDays)
	want, err := m.usageDays(ctx, since)
	if err != nil {
		return err
	}
	var errs []error
	for key, object := range want {
		errs = append(errs, put(ctx, m.copies, have[key], object))
	}
	for key, object := range have {
		day, err := time.Parse(time.DateOnly, key.Name)
		closed := want[client.ObjectKey{Namespace: usageDaysHome, Name: key.Name}] != nil
		if err == nil && want[key] == nil && (day.Before(since) || closed) {
			errs = append(errs, client.IgnoreNotFound(m.copies.Delete(ctx, object)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("copy days to GPUUsageDays: %w", err)
	}
	return nil
}

// put writes an object, if what is there is another.
func put(ctx context.Context, to client.Client, was, is *v1alpha1.GPUUsageDay) error {
	if was == nil {
		return to.Create(ctx, is, client.FieldOwner(meterName))
	}
	if reflect.DeepEqual(was.Spec, is.Spec) {
		return nil
	}
	is.ResourceVersion = was.ResourceVersion
	return to.Update(ctx, is, client.FieldOwner(meterName))
}

// usageDays are the copies of the days since a time that are closed, as they should be. Each day has one at home.
func (m *Meter) usageDays(ctx context.Context, since time.Time) (usageDays, error) {
	m.mu.Lock()
	namespaces := maps.Clone(m.tally.namespaces)
	m.mu.Unlock()
	there := func(name string) bool { return isThere(namespaces[name]) }
	days, err := m.book.Days(ctx)
	want := usageDays{}
	for _, day := range days {
		if day.Before(since) {
			continue
		}
		rows, err := m.book.DayRows(ctx, day)
		if err != nil {
			return nil, err
		}
		for namespace, part := range cost.Copies(rows, usageDaysHome, there) {
			object := usageDay(namespace, part)
			object.Namespace, object.Name = namespace, day.Format(time.DateOnly)
			if namespace == usageDaysHome {
				object.Spec.Sums = ledger.SumsHash(rows)
			}
			want[client.ObjectKeyFromObject(object)] = object
		}
	}
	return want, err
}

func isThere(n *v1.Namespace) bool { return n != nil && n.DeletionTimestamp == nil }

// usageDay is what a namespace keeps of a day.
func usageDay(namespace string, rows []cost.DayRow) *v1alpha1.GPUUsageDay {
	out := &v1alpha1.GPUUsageDay{Spec: v1alpha1.GPUUsageDaySpec{PartsPerGPU: quota.Whole}}
	var partMillis int64
	var amounts []cost.Amount
	for i := range rows {
		r := &rows[i]
		row := v1alpha1.GPUUsageRow{
			What: r.What.String(), Reason: string(r.Reason), User: r.User, Queue: r.Queue, Product: r.Product,
			PartMillis: r.PartMillis, Unpriced: r.Unpriced, Micros: r.Micros, Currency: r.Currency,
		}
		if r.Namespace != namespace {
			row.Namespace = r.Namespace
		}
		out.Spec.Rows = append(out.Spec.Rows, row)
		partMillis += r.PartMillis
		if r.Currency != "" {
			amounts = cost.AddAmounts(amounts, cost.Amount{Currency: r.Currency, Micros: r.Micros})
		}
	}
	texts := make([]string, len(amounts))
	for i, a := range amounts {
		texts[i] = money(a.Micros, a.Currency)
	}
	out.Spec.GPUHours, out.Spec.Cost = fmt.Sprintf("%.2f", float64(partMillis)/quota.Whole/float64(time.Hour.Milliseconds())), strings.Join(texts, ", ")
	return out
}

// rowsOf are the rows of an object as the ledger has them. Rows of what the ledger does not know are left out.
func rowsOf(object *v1alpha1.GPUUsageDay) (out []cost.DayRow) {
	for i := range object.Spec.Rows {
		r := &object.Spec.Rows[i]
		row := cost.DayRow{
			Namespace: r.Namespace, User: r.User, Queue: r.Queue, Product: r.Product, Reason: usage.Reason(r.Reason), Currency: r.Currency,
			PartMillis: r.PartMillis, Unpriced: r.Unpriced, Micros: r.Micros,
		}
		var known bool
		if row.What, known = cost.ParseWhat(r.What); !known {
			continue
		}
		if row.What == cost.Held && row.Namespace == "" {
			row.Namespace = object.Namespace
		}
		out = append(out, row)
	}
	return out
}
