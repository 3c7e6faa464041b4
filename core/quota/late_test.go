package quota_test

import (
	"fmt"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
)

// TestSmallerWorkloadsOvertakeForAnHour has workloads of one GPU come every minute and run for ten, in a queue of
// 8 GPUs in which one of 8 waits: kueue#13320, where it never starts.
func TestSmallerWorkloadsOvertakeForAnHour(t *testing.T) {
	for _, tt := range []struct {
		name    string
		of      string // the queue in which the small ones are
		nominal int64
		large   int64
		starts  bool
	}{
		{"what is within nominal quota starts when those that ran after an hour have ended", "red", 8, 8, true},
		{"those of another queue have their own quota", "blue", 8, 8, true},
		{"what would borrow keeps nothing from the others", "red", 4, 8, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := quota.NewBook(quota.NewTree([]quota.Spec{
				{Name: "all", Quotas: []quota.Quota{gpus(16)}},
				{Name: "red", Parent: "all", Quotas: []quota.Quota{{Resource: quota.GPUs, Nominal: tt.nominal * whole, Borrowing: 4 * whole, Lending: quota.Unlimited}}},
				{Name: "blue", Parent: "all", Quotas: []quota.Quota{{Resource: quota.GPUs, Nominal: 8 * whole, Lending: quota.Unlimited}}},
			}))
			small := func(k int) *quota.Workload {
				w := ask(fmt.Sprintf("small%03d", k), tt.of, "", 1)
				w.Since = epoch.Add(time.Duration(k) * time.Minute)
				w.Ticket.UID, w.Ticket.Created = w.ID, w.Since
				return w
			}
			ends, passed, began := map[string]time.Time{}, 0, time.Duration(-1)
			start := func(w *quota.Workload, now time.Time) {
				holds(b, w, "")
				ends[w.ID] = now.Add(10 * time.Minute)
				passed++
			}
			for k := range 6 { // the first six are there when the large one comes
				start(small(k), epoch.Add(time.Duration(k)*time.Minute))
			}
			large := ask("large", "red", "", tt.large)
			large.Since = epoch.Add(5 * time.Minute)
			large.Ticket.UID, large.Ticket.Created = "large", large.Since
			if tt.of == "blue" { // it lacks what its own queue holds
				holds(b, ask("other", "red", "", 6), "")
				ends["other"] = epoch.Add(2 * time.Hour)
			}
			b.Wait(large)
			for k := 6; k < 200 && began < 0; k++ {
				now := epoch.Add(time.Duration(k) * time.Minute)
				b.SetNow(now)
				for id, end := range ends {
					if !now.Before(end) {
						delete(ends, id)
						b.Gone(id)
					}
				}
				for _, w := range b.Next(time.Time{}) {
					if w.ID == "large" {
						began = now.Sub(large.Since)
						break
					}
					start(&w, now)
				}
				w := small(k)
				switch v := b.Try(w); {
				case v.Cause == quota.None:
					start(w, now)
				case v.Cause == quota.Behind && now.Sub(large.Since) < time.Hour:
					t.Errorf("after %v one of 1 GPU does not go on: %s", now.Sub(large.Since), v.Sentence("the pod", ""))
					b.Wait(w)
				default:
					b.Wait(w)
				}
			}
			if passed < 50 {
				t.Errorf("%d small workloads have passed: the test shows little", passed)
			}
			if tt.starts && (began < time.Hour || began > 2*time.Hour) || !tt.starts && began >= 0 {
				t.Errorf("the large one starts after %v", began)
			}
		})
	}
}

// TestBehindOneThatIsLate asks for what is behind a workload that has waited for an hour and lacks GPUs.
func TestBehindOneThatIsLate(t *testing.T) {
	b := quota.NewBook(quota.NewTree([]quota.Spec{{Name: "red", Quotas: []quota.Quota{gpus(4)}, PerUser: []quota.Limit{{Resource: quota.GPUs, Most: 4 * whole}}}}))
	holds(b, ask("holds", "red", "ann", 2), "")
	late := ask("late", "red", "bob", 4)
	late.Since = epoch
	late.Ticket.UID, late.Ticket.Created = "late", epoch
	b.Wait(late)
	b.SetNow(epoch.Add(time.Hour))
	try := func(id, user string, priority int32) quota.Verdict {
		w := ask(id, "red", user, 1)
		w.Since = epoch.Add(time.Minute)
		w.Ticket.UID, w.Ticket.Created, w.Ticket.Priority = id, w.Since, priority
		return b.Try(w)
	}
	v := try("next", "ann", 0)
	if want := "the pod asks for 1 GPU, and what is free for queue red is kept for a workload before it in line, which asks for 4 GPUs and has waited for over an hour"; v.Sentence("the pod", "ann") != want {
		t.Errorf("it says\n%s, want\n%s", v.Sentence("the pod", "ann"), want)
	}
	if v.Cause.Passes() {
		t.Error("the end of others helps the one behind, and it would evict some")
	}
	if v := try("urgent", "ann", 1); v.Cause != quota.None {
		t.Errorf("one of higher priority is before it: %+v", v)
	}
	holds(b, ask("own", "red", "bob", 1), "")
	if v := try("next", "ann", 0); v.Cause != quota.None {
		t.Errorf("a workload that waits for its own user's pods keeps quota from others: %+v", v)
	}
	b.Gone("own")
	if b.Leave("late"); try("next", "ann", 0).Cause != quota.None {
		t.Error("the late one has left, and the next does not go on")
	}
}
