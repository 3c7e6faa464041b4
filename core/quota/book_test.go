package quota_test

import (
	"testing"
	"time"

	"berth.dev/berth/core/quota"
)

const whole = quota.Whole

var epoch = time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)

// gpus is a quota of whole GPUs without limits on lending and borrowing.
func gpus(nominal int64) quota.Quota {
	return quota.Quota{Resource: quota.GPUs, Nominal: nominal * whole, Borrowing: quota.Unlimited, Lending: quota.Unlimited}
}

// ask is a workload of one pod.
func ask(id, queue, user string, n int64) *quota.Workload {
	return &quota.Workload{ID: id, Queue: queue, User: user, Pods: []quota.Pod{{ID: id, Pieces: []quota.Piece{{Devices: n, Parts: n * whole}}}}}
}

// gangOf is a workload of pods with one GPU each.
func gangOf(id, queue string, pods, need int) *quota.Workload {
	w := &quota.Workload{ID: id, Queue: queue, Need: need}
	for k := range pods {
		w.Pods = append(w.Pods, quota.Pod{ID: id + "-" + string(rune('a'+k)), Pieces: []quota.Piece{{Devices: 1, Parts: whole}}})
	}
	return w
}

// gangOfUsers is a gang in queue red with a pod of one GPU for each user; the first leads.
func gangOfUsers(users ...string) *quota.Workload {
	w := gangOf("new", "red", len(users), 0)
	w.User = users[0]
	for k, user := range users {
		w.Pods[k].User = user
	}
	return w
}

// mixed is a workload of which some pods are of another queue.
func mixed(w *quota.Workload, other string) *quota.Workload {
	w.Mixed, w.Other = true, other
	return w
}

// holds has a workload of one pod hold what it asks for, of a product.
func holds(b *quota.Book, w *quota.Workload, product string) {
	for _, p := range w.Pods {
		h := quota.Holder{ID: p.ID, Workload: w.ID, Queue: w.Queue, User: w.User, Start: epoch, Least: w.Need}
		for _, piece := range p.Pieces {
			piece.Product = product
			h.Pieces = append(h.Pieces, piece)
		}
		b.Hold(&h)
	}
}

func TestTry(t *testing.T) {
	org := []quota.Spec{
		{Name: "org", Quotas: []quota.Quota{gpus(14)}},
		{Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(7)}},
		{Name: "blue", Parent: "org", Quotas: []quota.Quota{gpus(7)}},
	}
	with := func(change func(specs []quota.Spec)) []quota.Spec {
		out := append([]quota.Spec(nil), org...)
		for i := range out {
			out[i].Quotas = append([]quota.Quota(nil), out[i].Quotas...)
		}
		change(out)
		return out
	}
	gang := func(pods, need int) *quota.Workload { return gangOf("new", "red", pods, need) }
	tests := map[string]struct {
		specs []quota.Spec
		held  []*quota.Workload
		ask   *quota.Workload
		want  quota.Verdict
	}{
		"a queue holds its nominal quota": {specs: org, ask: ask("new", "red", "", 7), want: quota.Verdict{Count: 1}},
		"a queue borrows what others do not use": {
			specs: org, held: []*quota.Workload{ask("b", "blue", "", 3)}, ask: ask("new", "red", "", 11), want: quota.Verdict{Count: 1, Borrows: true},
		},
		"a queue does not borrow what others use": {
			specs: org, held: []*quota.Workload{ask("b", "blue", "", 3)}, ask: ask("new", "red", "", 12),
			want: quota.Verdict{Cause: quota.Used, Queue: "org", Resource: quota.GPUs, Asked: 12 * whole, Held: 3 * whole, Most: 14 * whole},
		},
		"more than the tree has is never to be had": {
			specs: org, ask: ask("new", "red", "", 15),
			want: quota.Verdict{Cause: quota.Never, Queue: "org", Resource: quota.GPUs, Asked: 15 * whole, Most: 14 * whole},
		},
		"a borrowing limit ends what is borrowed": {
			specs: with(func(s []quota.Spec) { s[1].Quotas[0].Borrowing = 2 * whole }),
			held:  []*quota.Workload{ask("r", "red", "", 7)}, ask: ask("new", "red", "", 3),
			want: quota.Verdict{Cause: quota.BorrowingLimit, Queue: "red", Resource: quota.GPUs, Asked: 3 * whole, Held: 7 * whole, Most: 9 * whole},
		},
		"a lending limit keeps quota at home": {
			specs: with(func(s []quota.Spec) { s[2].Quotas[0].Lending = 2 * whole }),
			ask:   ask("new", "red", "", 10),
			want:  quota.Verdict{Cause: quota.Never, Queue: "org", Resource: quota.GPUs, Asked: 10 * whole, Most: 9 * whole},
		},
		"what is kept at home serves its own queue": {
			specs: with(func(s []quota.Spec) { s[2].Quotas[0].Lending = 2 * whole }),
			held:  []*quota.Workload{ask("r", "red", "", 9)}, ask: ask("new", "blue", "", 5), want: quota.Verdict{Count: 1},
		},
		"what a queue two levels below keeps at home is not lent": {
			specs: []quota.Spec{
				{Name: "org"},
				{Name: "red", Parent: "org"},
				{Name: "blue", Parent: "org"},
				{Name: "deep", Parent: "blue", Quotas: []quota.Quota{{Resource: quota.GPUs, Nominal: 4 * whole, Borrowing: quota.Unlimited, Lending: whole}}},
			},
			ask: ask("new", "red", "", 2), want: quota.Verdict{Cause: quota.Never, Queue: "org", Resource: quota.GPUs, Asked: 2 * whole, Most: whole},
		},
		"a queue without quota of its own borrows from its parent": {
			specs: append(with(func([]quota.Spec) {}), quota.Spec{Name: "guests", Parent: "org"}), held: []*quota.Workload{ask("r", "red", "", 7)},
			ask: ask("new", "guests", "", 7), want: quota.Verdict{Count: 1, Borrows: true},
		},
		"a resource that nothing limits is not counted": {
			specs: []quota.Spec{{Name: "red"}}, ask: ask("new", "red", "", 1000), want: quota.Verdict{Count: 1},
		},
		"a user's limit counts what the user holds in the queues below": {
			specs: with(func(s []quota.Spec) { s[0].PerUser = []quota.Limit{{quota.GPUs, 2 * whole}} }),
			held:  []*quota.Workload{ask("b", "blue", "ann", 1)}, ask: ask("new", "red", "ann", 2),
			want: quota.Verdict{Cause: quota.UserLimit, Queue: "org", Resource: quota.GPUs, Asked: 2 * whole, Held: whole, Most: 2 * whole},
		},
		"another user has a limit of their own": {
			specs: with(func(s []quota.Spec) { s[0].PerUser = []quota.Limit{{quota.GPUs, 2 * whole}} }),
			held:  []*quota.Workload{ask("b", "blue", "ann", 1)}, ask: ask("new", "red", "bob", 2), want: quota.Verdict{Count: 1},
		},
		"a pod's limit is of one pod": {
			specs: with(func(s []quota.Spec) { s[1].PerPod = []quota.Limit{{quota.GPUs, 4 * whole}} }), ask: ask("new", "red", "", 5),
			want: quota.Verdict{Cause: quota.PodLimit, Queue: "red", Resource: quota.GPUs, Asked: 5 * whole, Most: 4 * whole},
		},
		"a stopped queue admits nothing": {
			specs: with(func(s []quota.Spec) { s[0].Stop = true }), ask: ask("new", "red", "", 1), want: quota.Verdict{Cause: quota.Stopped, Queue: "org"},
		},
		"a queue whose budget is spent admits nothing": {
			specs: with(func(s []quota.Spec) { s[0].Spent = true }), ask: ask("new", "red", "", 1), want: quota.Verdict{Cause: quota.Spent, Queue: "org"},
		},
		"a gang is admitted whole": {
			specs: org, held: []*quota.Workload{ask("b", "blue", "", 7), ask("r", "red", "", 4)}, ask: gang(4, 0),
			want: quota.Verdict{Cause: quota.Used, Queue: "org", Resource: quota.GPUs, Asked: 4 * whole, Held: 11 * whole, Most: 14 * whole},
		},
		"of an elastic gang as many as there is quota for": {
			specs: org, held: []*quota.Workload{ask("b", "blue", "", 7), ask("r", "red", "", 4)}, ask: gang(8, 2), want: quota.Verdict{Count: 3},
		},
		"each pod of a gang counts for its own user": {
			specs: with(func(s []quota.Spec) { s[0].PerUser = []quota.Limit{{quota.GPUs, 2 * whole}} }),
			held:  []*quota.Workload{ask("b", "blue", "bob", 1)}, ask: gangOfUsers("ann", "ann", "bob", "bob"),
			want: quota.Verdict{Cause: quota.UserLimit, Queue: "org", User: "bob", Resource: quota.GPUs, Asked: 2 * whole, Held: whole, Most: 2 * whole},
		},
		"two users may have in a gang what each may have": {
			specs: with(func(s []quota.Spec) { s[0].PerUser = []quota.Limit{{quota.GPUs, 2 * whole}} }),
			ask:   gangOfUsers("ann", "bob", "ann", "bob"), want: quota.Verdict{Count: 4},
		},
		"a gang with pods of several queues is not admitted": {
			specs: org, ask: mixed(gang(2, 0), "blue"), want: quota.Verdict{Cause: quota.Mixed, Queue: "red", Other: "blue"},
		},
		"a queue that does not exist admits nothing": {specs: org, ask: ask("new", "green", "", 1), want: quota.Verdict{Cause: quota.NoQueue, Queue: "green"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := quota.NewBook(quota.NewTree(tt.specs))
			for _, w := range tt.held {
				holds(b, w, "")
			}
			if got := b.Try(tt.ask); !equal(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func equal(a, b quota.Verdict) bool {
	return a.Cause == b.Cause && a.Queue == b.Queue && a.Other == b.Other && a.User == b.User && a.Resource == b.Resource && a.Asked == b.Asked && a.Held == b.Held && a.Most == b.Most && a.Count == b.Count && a.Borrows == b.Borrows
}

func TestProducts(t *testing.T) {
	of := func(product string, n int64) quota.Quota {
		return quota.Quota{Resource: quota.Resource(product), Nominal: n * whole, Borrowing: quota.Unlimited, Lending: quota.Unlimited}
	}
	b := quota.NewBook(quota.NewTree([]quota.Spec{{Name: "red", Quotas: []quota.Quota{of("Tesla-T4", 2), of("NVIDIA-A100-SXM4-40GB", 4)}}}))
	several := func(n int64) *quota.Workload {
		w := ask("new", "red", "", n)
		w.Kinds = []quota.Kind{{Product: "NVIDIA-A100-SXM4-40GB"}, {Product: "Tesla-T4"}, {Product: "Tesla-V100-SXM2-16GB"}}
		return w
	}
	steps := []struct {
		ask      int64
		products int
		cause    quota.Cause
		hold     string // product that is held then
	}{
		{1, 0, quota.None, "Tesla-T4"},
		{2, 2, quota.None, "NVIDIA-A100-SXM4-40GB"}, // A100, and V100, which nothing limits
		{5, 1, quota.None, ""},
	}
	for k, s := range steps {
		v := b.Try(several(s.ask))
		got := 0
		for _, c := range v.Choices {
			got += len(c.Kinds)
		}
		if v.Cause != s.cause || got != s.products {
			t.Errorf("step %d: a pod of %d GPUs: %+v", k, s.ask, v)
		}
		if s.hold != "" {
			w := ask("held-"+s.hold, "red", "", s.ask)
			holds(b, w, s.hold)
		}
	}
}

// TestWhatIsBeingDeletedCounts: KAI-Scheduler's issue 1492 is of GPUs that were given again while
// the pod that held them was ending.
func TestWhatIsBeingDeletedCounts(t *testing.T) {
	b := quota.NewBook(quota.NewTree([]quota.Spec{{Name: "red", Quotas: []quota.Quota{gpus(4)}}}))
	h := quota.Holder{ID: "a", Workload: "a", Queue: "red", Pieces: []quota.Piece{{Devices: 4, Parts: 4 * whole}}}
	b.Hold(&h)
	b.Wait(ask("b", "red", "", 1))
	h.Leaving = true
	b.Hold(&h)
	if call := b.Next(time.Time{}); len(call) > 0 {
		t.Errorf("%v are called for what another still holds", call)
	}
	b.Gone("a")
	if call := b.Next(time.Time{}); len(call) != 1 {
		t.Errorf("what is free calls %v", call)
	}
}

func TestNextKeepsWhatItGives(t *testing.T) {
	b := quota.NewBook(quota.NewTree([]quota.Spec{{Name: "red", Quotas: []quota.Quota{gpus(2)}}}))
	holds(b, ask("first", "red", "", 2), "")
	for _, id := range []string{"a", "b", "c"} {
		w := ask(id, "red", "", 1)
		w.Ticket.UID = id
		if v := b.Try(w); v.Cause != quota.Used {
			t.Fatalf("%s: %+v", id, v)
		}
		b.Wait(w)
	}
	if call := b.Next(time.Time{}); len(call) != 0 {
		t.Errorf("nothing is free, and %v are called", call)
	}
	b.Gone("first")
	var ids []string
	for _, w := range b.Next(time.Time{}) {
		ids = append(ids, w.ID)
	}
	if len(ids) != 2 || ids[0] != "a" || ids[1] != "b" {
		t.Errorf("called: %v, want the first two of the line", ids)
	}
	if v := b.Try(ask("new", "red", "", 1)); v.Cause != quota.Used {
		t.Errorf("what is kept for a and b is given to another: %+v", v)
	}
	if v := b.Try(ask("a", "red", "", 1)); v.Cause != quota.None {
		t.Errorf("a does not get what is kept for it: %+v", v)
	}
	b.Release("a")
	if call := b.Next(time.Time{}); len(call) != 1 || call[0].ID != "c" {
		t.Errorf("a is released, and %v are called", call)
	}
}
