package quota_test

import (
	"fmt"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
)

// BenchmarkAdmit is one admission among 1,000 queues in which 10,000 gangs wait: a gang
// ends, the next is called, and starts.
func BenchmarkAdmit(b *testing.B) {
	benchmarkAdmit(b, func(n int64) quota.Spec { return quota.Spec{Quotas: []quota.Quota{gpus(n)}} }, nil, nil)
}

// BenchmarkAdmitLate is BenchmarkAdmit where all that waits has waited for more than an hour.
func BenchmarkAdmitLate(b *testing.B) {
	benchmarkAdmit(b, func(n int64) quota.Spec { return quota.Spec{Quotas: []quota.Quota{gpus(n)}} }, nil, nil, epoch.AddDate(1, 0, 0))
}

// BenchmarkAdmitPools is BenchmarkAdmit where each gang may use two pools, one of which is preferred and
// has no quota.
func BenchmarkAdmitPools(b *testing.B) {
	benchmarkAdmit(b, func(n int64) quota.Spec {
		return quota.Spec{Quotas: []quota.Quota{parts(training, n), parts(serving, 0)}, Prefers: []quota.Resource{serving, training}}
	}, []quota.Kind{{Product: a100, Labels: serving}, {Product: a100, Labels: training}}, nil)
}

// benchmarkAdmit has queues of a spec for so many GPUs, and gangs that may use kinds of them. also, if not nil, is called
// with each gang that is called and the one that waits now. It is now, if that is given.
func benchmarkAdmit(b *testing.B, spec func(n int64) quota.Spec, kinds []quota.Kind, also func(called, waits *quota.Workload), now ...time.Time) {
	const queues, perQueue, size = 1000, 10, 8
	org := spec(queues * size)
	org.Name = "org"
	specs := []quota.Spec{org}
	for k := range queues {
		s := spec(size)
		s.Name, s.Parent = fmt.Sprintf("team%03d", k), "org"
		specs = append(specs, s)
	}
	book := quota.NewBook(quota.NewTree(specs))
	var running []*quota.Workload
	for k := range queues * (perQueue + 1) {
		id := fmt.Sprintf("gang%d", k)
		w := gangOf(id, specs[1+k%queues].Name, size, size)
		w.Since = epoch.Add(time.Duration(k) * time.Second)
		w.Ticket.UID, w.Ticket.Created, w.Kinds = id, w.Since, kinds
		if book.Try(w).Cause == quota.None {
			hold(book, w, kinds)
			running = append(running, w)
			continue
		}
		book.Wait(w)
	}
	for _, at := range now {
		book.SetNow(at)
	}
	k := 0
	for b.Loop() {
		w := running[k%len(running)]
		for _, p := range w.Pods {
			book.Gone(p.ID)
		}
		call := book.Next(time.Time{})
		if len(call) != 1 {
			b.Fatalf("a gang of 8 has ended, and %d are called", len(call))
		}
		book.Claims()
		hold(book, &call[0], kinds)
		w.Ticket.Created = epoch.Add(time.Duration(k) * time.Hour)
		book.Wait(w)
		if also != nil {
			also(&call[0], w)
		}
		running[k%len(running)] = &call[0]
		k++
	}
}

// hold has a gang hold what it asks for, of the last of kinds.
func hold(b *quota.Book, w *quota.Workload, kinds []quota.Kind) {
	if len(kinds) == 0 {
		holds(b, w, "")
		return
	}
	k := kinds[len(kinds)-1]
	for _, p := range w.Pods {
		b.Hold(&quota.Holder{ID: p.ID, Workload: w.ID, Queue: w.Queue, Start: epoch, Least: w.Need, Pieces: []quota.Piece{{Product: k.Product, Labels: k.Labels, Devices: 1, Parts: whole}}})
	}
}

// BenchmarkTry is the question whether a pod fits, with queues and without any limit.
func BenchmarkTry(b *testing.B) {
	for name, specs := range map[string][]quota.Spec{
		"limited":   {{Name: "org", Quotas: []quota.Quota{gpus(100)}}, {Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(10)}}},
		"unlimited": {{Name: "red"}},
	} {
		b.Run(name, func(b *testing.B) {
			book, w := quota.NewBook(quota.NewTree(specs)), ask("a", "red", "ann", 1)
			for b.Loop() {
				book.Try(w)
			}
		})
	}
}

// BenchmarkVictims is the search for 8 GPUs among 4,000 pods that borrow.
func BenchmarkVictims(b *testing.B) {
	book := quota.NewBook(quota.NewTree([]quota.Spec{
		{Name: "org", Quotas: []quota.Quota{gpus(4000)}},
		{Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(1000)}},
		{Name: "blue", Parent: "org", Quotas: []quota.Quota{gpus(1000)}},
	}))
	for k := range 4000 {
		holds(book, ask(fmt.Sprintf("p%d", k), "blue", "", 1), "")
	}
	c := &quota.Claim{Workload: gangOf("new", "red", 8, 8), Now: epoch.Add(time.Minute)}
	for b.Loop() {
		if v, _, ok := book.Victims(c, nil); !ok || len(v) != 8 {
			b.Fatal(v, ok)
		}
	}
}
