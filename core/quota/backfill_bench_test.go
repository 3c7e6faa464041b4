package quota_test

import (
	"fmt"
	"testing"
	"time"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
)

// BenchmarkAdmitBackfill is BenchmarkAdmit with four reservations: the gang that is called asks what is kept from it, uses
// it where it is expected to end before, and is noted as started; and the gang behind it is refused. 64 runs of each queue are known.
func BenchmarkAdmitBackfill(b *testing.B) {
	const queues, size = 1000, 8
	r, now := newReserving(), epoch.AddDate(0, 0, 1)
	for k := range queues {
		for n := range 64 {
			r.times.Ended(templateOf(fmt.Sprintf("team%03d", k)), time.Duration(1+(k+n)%600)*time.Minute)
		}
	}
	for k := range 4 {
		first := &quota.Workload{ID: fmt.Sprint("large", k), Ticket: queue.Ticket{Age: queue.Age{UID: fmt.Sprint("large", k), Created: epoch.Add(time.Duration(k) * time.Second)}}}
		r.refused(first, first.ID, epoch)
		r.keeper.Bound(queue.Ticket{Age: queue.Age{UID: "late", Created: now}}, "late", "n")
		claim, ok := r.refused(first, first.ID, now)
		if !ok {
			b.Fatal("a gang that was overtaken has no reservation")
		}
		r.keeper.Keep(&claim, first.ID, []string{first.ID}, []string{"runs"}, []string{"n"}, now.Add(8*time.Hour))
	}
	guests := 0
	benchmarkAdmit(b, func(n int64) quota.Spec { return quota.Spec{Quotas: []quota.Quota{gpus(n)}} }, nil, func(called, behind *quota.Workload) {
		if r.starts(called, now) {
			guests++
		}
		if _, ok := r.refused(behind, "gang of "+behind.Queue, now); ok {
			b.Fatal("a fifth reservation")
		}
	})
	if guests == 0 || len(r.keeper.All()) != 4 {
		b.Fatalf("%d of %d gangs use what is kept for %d", guests, b.N, len(r.keeper.All()))
	}
}

// reserving is what the scheduler has beside a Book: reservations, run times, and which templates were too late.
type reserving struct {
	keeper *queue.Keeper[string]
	times  *queue.RunTimes
	credit queue.Credit
}

func newReserving() *reserving {
	return &reserving{keeper: queue.NewKeeper[string](time.Minute), times: queue.NewRunTimes()}
}

func templateOf(queueName string) queue.Template { return queue.Template{Name: queueName, Class: "8"} }

// refused takes a workload that fits nowhere.
func (r *reserving) refused(w *quota.Workload, line string, now time.Time) (queue.Reservation, bool) {
	return r.keeper.Refused(&queue.Waiter{
		Ticket: w.Ticket, ID: w.ID, Line: line, Since: epoch, Uses: func(string) bool { return true },
	}, now)
}

// starts has a workload start, and end at once, and reports whether it used what is kept for others.
func (r *reserving) starts(w *quota.Workload, now time.Time) (guest bool) {
	template := templateOf(w.Queue)
	ends := now.Add(r.times.Of(template).Left(0, 0.9))
	if !r.credit.Allows(template.Name, now) {
		ends = time.Time{}
	}
	open, guest := r.keeper.Open(w.Ticket, ends)
	if guest {
		r.keeper.Enter([]string{w.ID}, open, nil)
		r.credit.Enter(w.ID, template.Name, open[0].At)
		r.keeper.Arrived(w.ID)
	}
	r.keeper.Bound(w.Ticket, w.ID, "n")
	r.times.Ended(template, time.Hour)
	r.credit.Left(w.ID, now)
	return guest
}
