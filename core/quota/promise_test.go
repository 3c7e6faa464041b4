package quota_test

import (
	"fmt"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
)

// TestQuotaThatIsOwedToSeveralComesPodByPod: red has lent all its 4 GPUs to blue, and 4 pods of red have
// pods of blue evicted. Each of them goes on as soon as one of these is gone, and does not wait for all;
// no other pod gets what is owed to them, and the queues never hold more than they have.
func TestQuotaThatIsOwedToSeveralComesPodByPod(t *testing.T) {
	b := quota.NewBook(quota.NewTree([]quota.Spec{
		{Name: "org", Quotas: []quota.Quota{gpus(8)}},
		{Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(4)}},
		{Name: "blue", Parent: "org", Quotas: []quota.Quota{gpus(4)}},
	}))
	for k := range 8 {
		holds(b, ask(fmt.Sprint("blue-", k), "blue", "", 1), "")
	}
	waits := ask("blue-waits", "blue", "", 1)
	var claims []*quota.Workload
	for k := range 4 {
		w := ask(fmt.Sprint("red-", k), "red", "", 1)
		claims = append(claims, w)
		b.Promise(w, w.Pods)
	}
	for k, w := range claims {
		if v := b.Try(w); v.Cause == quota.None {
			t.Errorf("%s goes on while the pods that hold its quota are there", w.ID)
		}
		b.Gone(fmt.Sprint("blue-", k))
		if v := b.Try(waits); v.Cause == quota.None {
			t.Error("another pod gets what is owed")
		}
		if v := b.Try(w); v.Cause != quota.None {
			t.Fatalf("%s is refused when a pod is gone: %+v", w.ID, v)
		}
		holds(b, w, "")
		if len(b.Holders()) > 8 {
			t.Errorf("pods hold %d GPUs, and the root has 8", len(b.Holders()))
		}
	}
	if len(b.Holders()) != 8 || !b.Recount() {
		t.Errorf("pods hold %d GPUs, want 8", len(b.Holders()))
	}
}

// TestQuotaThatWasFreeIsNotOwed: what is kept for workloads that need no evictions counts against those that
// are owed quota, and what is owed does not count against them.
func TestQuotaThatWasFreeIsNotOwed(t *testing.T) {
	b := quota.NewBook(quota.NewTree([]quota.Spec{
		{Name: "org", Quotas: []quota.Quota{gpus(4)}},
		{Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(4)}},
		{Name: "blue", Parent: "org", Quotas: []quota.Quota{gpus(0)}},
	}))
	holds(b, ask("blue-0", "blue", "", 2), "")
	free, called, owed := ask("free", "red", "", 1), ask("called", "red", "", 1), ask("owed", "red", "", 1)
	b.Promise(free, free.Pods)
	b.Keep(called, called.Pods, quota.Kind{}, time.Unix(60, 0))
	b.Promise(owed, owed.Pods)
	if v := b.Try(owed); v.Cause == quota.None {
		t.Error("a workload takes the quota that is kept for others")
	}
	for _, w := range []*quota.Workload{free, called} {
		if v := b.Try(w); v.Cause != quota.None {
			t.Errorf("%s is refused what was free: %+v", w.ID, v)
		}
	}
	b.Gone("blue-0")
	if v := b.Try(owed); v.Cause != quota.None {
		t.Errorf("%s is refused when the pod is gone: %+v", owed.ID, v)
	}
}
