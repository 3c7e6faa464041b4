package quota_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/quota"
)

func TestLinesAreOfAQueueAndThoseBelow(t *testing.T) {
	b := evictedBook()
	at := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) }
	for k, queue := range []string{"red", "blue", "red", "deleted"} {
		w := ask(string(rune('p'+k)), queue, "", 1)
		w.Since = at(10 - k)
		b.Wait(w)
	}
	want := map[string]quota.Waiters{"org": {3, at(8)}, "red": {2, at(8)}, "blue": {1, at(9)}}
	if diff := cmp.Diff(want, b.Lines()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	b.Leave("r")
	b.Leave("q")
	want = map[string]quota.Waiters{"org": {1, at(10)}, "red": {1, at(10)}, "blue": {}}
	if diff := cmp.Diff(want, b.Lines()); diff != "" {
		t.Errorf("after two have left: -want +got\n%s", diff)
	}
}
