package quota_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/checkpoint"
	"berth.dev/berth/core/quota"
)

// back is what blue takes back from red.
var back = quota.Reclaim{From: "red", By: "blue"}

// evictedBook has red hold 8 GPUs of a tree in which red and blue have 4 each: one in each of these
// pods, by owner.
func evictedBook(owners ...string) *quota.Book {
	b := quota.NewBook(quota.NewTree([]quota.Spec{
		{Name: "org", Quotas: []quota.Quota{gpus(8)}},
		{Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(4)}},
		{Name: "blue", Parent: "org", Quotas: []quota.Quota{gpus(4)}},
	}))
	for k := range 8 {
		id := string(rune('a' + k))
		owner := id
		if k < len(owners) {
			owner = owners[k]
		}
		pieces := []quota.Piece{{Devices: 1, Parts: whole}}
		b.Hold(&quota.Holder{ID: id, Workload: id, Owner: owner, Queue: "red", Pieces: pieces, Start: epoch.Add(time.Duration(k) * time.Second), Least: 1})
	}
	return b
}

func TestWhoWasEvictedOftenGoesLast(t *testing.T) {
	const day = 24 * time.Hour
	minute := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) }
	evict := func(b *quota.Book, owner string, times, of int, at time.Time) {
		for range times {
			b.Evict(owner, back, of, at)
		}
	}
	saves := func(b *quota.Book, id string, how checkpoint.Saves) {
		k := int(id[0] - 'a')
		b.Hold(&quota.Holder{ID: id, Workload: id, Owner: id, Queue: "red", Pieces: []quota.Piece{{Devices: 1, Parts: whole}}, Start: epoch.Add(time.Duration(k) * time.Second), Saves: how, Least: 1})
	}
	for name, tt := range map[string]struct {
		owners []string
		before func(b *quota.Book)
		asks   int64
		now    time.Time // the claim waits since a minute after the pods began to run
		want   []string
		later  time.Time
	}{
		"of equals the youngest goes": {asks: 1, now: minute(1), want: []string{"h"}},
		"one that was evicted twice is as all others": {
			before: func(b *quota.Book) { evict(b, "h", 2, 1, epoch) }, asks: 1, now: minute(1), want: []string{"h"},
		},
		"one that was evicted three times is passed over": {
			before: func(b *quota.Book) { evict(b, "h", 3, 1, epoch) }, asks: 1, now: minute(1), want: []string{"g"},
		},
		"where all were, they stay until the claim has waited for an hour": {
			owners: []string{"a", "b", "c", "d", "e", "f", "g", "h"},
			before: func(b *quota.Book) {
				for k := range 8 {
					evict(b, string(rune('a'+k)), 3, 1, epoch)
				}
			},
			asks: 1, now: minute(30), later: minute(61),
		},
		"and then the quota is returned": {
			before: func(b *quota.Book) {
				for k := range 8 {
					evict(b, string(rune('a'+k)), 3, 1, epoch)
				}
			},
			asks: 1, now: minute(61), want: []string{"h"},
		},
		"after an hour those that were evicted less often go first, though they lose more": {
			before: func(b *quota.Book) { evict(b, "h", 3, 1, epoch) }, asks: 4, now: minute(90), want: []string{"d", "e", "f", "g"},
		},
		"where those are too few, no more of the others go than needed": {
			before: func(b *quota.Book) {
				for k := range 6 {
					evict(b, string(rune('c'+k)), 3, 1, epoch)
				}
			},
			asks: 4, now: minute(61), want: []string{"a", "b", "g", "h"},
		},
		"three evictions of three pods of one workload are one each": {
			owners: []string{"", "", "", "", "", "job", "job", "job"},
			before: func(b *quota.Book) { evict(b, "job", 3, 3, epoch) }, asks: 2, now: minute(1), want: []string{"g", "h"},
		},
		"nine are three each": {
			owners: []string{"", "", "", "", "", "job", "job", "job"},
			before: func(b *quota.Book) { evict(b, "job", 9, 3, epoch) }, asks: 2, now: minute(1), want: []string{"d", "e"},
		},
		"a workload that has more pods now has been evicted less": {
			owners: []string{"", "", "", "", "", "job", "job", "job"},
			before: func(b *quota.Book) { evict(b, "job", 3, 1, epoch) }, asks: 1, now: minute(1), want: []string{"h"},
		},
		"a workload that had more pods then, too": {
			before: func(b *quota.Book) { evict(b, "h", 3, 2, epoch) }, asks: 1, now: minute(1), want: []string{"h"},
		},
		"workloads that save their work go before those that do not, the one that loses least first": {
			before: func(b *quota.Book) {
				saves(b, "a", checkpoint.Saves{Every: 30 * time.Minute})
				saves(b, "c", checkpoint.Saves{OnSignal: true})
			}, asks: 2, now: minute(40), want: []string{"a", "c"},
		},
		"one that saves when it is asked to stop goes first": {
			before: func(b *quota.Book) {
				saves(b, "a", checkpoint.Saves{Every: 10 * time.Minute})
				saves(b, "c", checkpoint.Saves{OnSignal: true})
			}, asks: 1, now: minute(40), want: []string{"c"},
		},
		"evictions of a week ago do not count": {
			before: func(b *quota.Book) { evict(b, "h", 3, 1, epoch.Add(-7*day)) }, asks: 1, now: minute(1), want: []string{"h"},
		},
		"what was recorded counts as what was seen": {
			before: func(b *quota.Book) {
				b.SetEvicted(quota.Evicted{Owner: "h", Queue: "red", By: "blue", Pods: 3, Of: 1, Last: epoch})
			},
			asks: 1, now: minute(1), want: []string{"g"},
		},
		"a record from before an eviction says nothing": {
			before: func(b *quota.Book) {
				evict(b, "h", 3, 1, epoch)
				b.SetEvicted(quota.Evicted{Owner: "h", Queue: "red", Pods: 1, Of: 1, Last: epoch.Add(-time.Minute)})
			},
			asks: 1, now: minute(1), want: []string{"g"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := evictedBook(tt.owners...)
			if tt.before != nil {
				tt.before(b)
			}
			w := gangOf("new", "blue", int(tt.asks), int(tt.asks))
			w.Since = minute(1)
			got, later, ok := b.Victims(&quota.Claim{Workload: w, Now: tt.now}, nil)
			if !slices.Equal(got, tt.want) || !later.Equal(tt.later) || ok != (tt.want != nil) {
				t.Errorf("Victims = %v, %v, %v, want %v, %v", got, later, ok, tt.want, tt.later)
			}
		})
	}
}

func TestInItsQueuePrioritiesDecideWhateverWasEvicted(t *testing.T) {
	b := evictedBook()
	for range 3 {
		b.Evict("h", back, 1, epoch)
	}
	w := ask("new", "red", "", 1)
	w.Since = epoch
	got, _, ok := b.Victims(&quota.Claim{Workload: w, Priority: 1, Now: epoch.Add(time.Minute)}, nil)
	if want := []string{"h"}; !ok || !slices.Equal(got, want) {
		t.Errorf("Victims = %v, %v, want %v", got, ok, want)
	}
}

func TestEvictionsAreListedAndForgotten(t *testing.T) {
	b := evictedBook()
	at := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Hour) }
	b.Evict("job", back, 2, at(0))
	b.Evict("job", back, 2, at(1))
	b.Evict("job", quota.Reclaim{From: "red", By: "green"}, 1, at(2))
	b.Evict("other", back, 1, at(1))
	b.Evict("elsewhere", quota.Reclaim{From: "blue", By: "red"}, 1, at(0))
	job := quota.Evicted{Owner: "job", Queue: "red", By: "green", Pods: 3, Of: 2, Last: at(2)}
	other := quota.Evicted{Owner: "other", Queue: "red", By: "blue", Pods: 1, Of: 1, Last: at(1)}
	for _, tt := range []struct {
		name string
		most int
		now  time.Time
		want []quota.Evicted
	}{
		{"all of a queue, by owner", 9, at(3), []quota.Evicted{job, other}},
		{"those evicted last, where there are more", 1, at(3), []quota.Evicted{job}},
		{"the others are forgotten", 9, at(3), []quota.Evicted{job}},
		{"none after a week", 9, at(2 + 7*24), nil},
	} {
		if diff := cmp.Diff(tt.want, b.EvictedOf("red", tt.most, tt.now)); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.name, diff)
		}
	}
}

func TestEvictionsInWords(t *testing.T) {
	const last = " in the last 7 days to return quota, the last time 5m ago: queue blue took back nominal quota that queue red had borrowed"
	for _, tt := range []struct {
		pods, of int
		want     string
	}{
		{1, 1, "the pod of its owner was evicted once" + last},
		{2, 1, "the pod of its owner was evicted 2 times" + last},
		{3, 1, "the pod of its owner was evicted 3 times" + last + "; it is evicted again only if no other pods can return the quota"},
		{3, 8, "pods of its owner, which had up to 8, were evicted 3 times" + last},
	} {
		e := quota.Evicted{Queue: "red", By: "blue", Pods: tt.pods, Of: tt.of}
		if got := e.Sentence("5m"); got != tt.want {
			t.Errorf("%d of %d: %q, want %q", tt.pods, tt.of, got, tt.want)
		}
	}
}
