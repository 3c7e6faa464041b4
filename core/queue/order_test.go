package queue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/queue"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// at is the age of a pod that came so many milliseconds after noon.
func at(ms int, uid string) queue.Age {
	return queue.Age{Created: noon.Add(time.Duration(ms) * time.Millisecond), UID: uid}
}

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		name        string
		first, next queue.Ticket
	}{
		{"the higher priority comes first, however late", queue.Ticket{Age: at(9000, "b"), Priority: 5}, queue.Ticket{Age: at(0, "a")}},
		{"of equal priority the older", queue.Ticket{Age: at(0, "b")}, queue.Ticket{Age: at(1000, "a")}},
		{"within one second the smaller UID, not the moment", queue.Ticket{Age: at(900, "a")}, queue.Ticket{Age: at(100, "b")}},
		{"a gang is as old as its oldest pod", queue.Ticket{Age: at(9000, "z"), Gang: at(0, "g")}, queue.Ticket{Age: at(1000, "a")}},
		{"of one gang the older pod", queue.Ticket{Age: at(0, "g"), Gang: at(0, "g")}, queue.Ticket{Age: at(9000, "a"), Gang: at(0, "g")}},
		{"a gang that runs in part comes before older pods", queue.Ticket{Age: at(9000, "z"), Gang: at(8000, "g"), Partial: true}, queue.Ticket{Age: at(0, "a")}},
		{"a pod before one that its gang has beyond its minimum, however old", queue.Ticket{Age: at(9000, "z")}, queue.Ticket{Age: at(0, "a"), Gang: at(0, "a"), Over: 1000}},
		{"of two beyond their minimums the one whose gang has less", queue.Ticket{Age: at(9000, "z"), Gang: at(8000, "g"), Over: 1000}, queue.Ticket{Age: at(0, "a"), Gang: at(0, "a"), Over: 2000}},
		{"the pods of a job that moved come before a pod that is newer than the job", queue.Ticket{Age: at(9000, "z").AsOldAs(at(0, "").Created)}, queue.Ticket{Age: at(5000, "a")}},
		{"a pod is not younger than its job says", queue.Ticket{Age: at(1000, "z").AsOldAs(at(9000, "").Created)}, queue.Ticket{Age: at(5000, "a")}},
		{"a job whose age is not known changes nothing", queue.Ticket{Age: at(1000, "z")}, queue.Ticket{Age: at(5000, "a").AsOldAs(time.Time{})}},
		{"but not before a higher priority", queue.Ticket{Age: at(9000, "z"), Priority: 1}, queue.Ticket{Age: at(0, "a"), Gang: at(0, "a"), Partial: true}},
	} {
		if got := queue.Compare(test.first, test.next); got >= 0 {
			t.Errorf("%s: Compare(%+v, %+v) is %d, want less than 0", test.name, test.first, test.next, got)
		}
		if got := queue.Compare(test.next, test.first); got <= 0 {
			t.Errorf("%s: Compare(%+v, %+v) is %d, want more than 0", test.name, test.next, test.first, got)
		}
	}
}

// tickets are those of random pods, many of one second and some of gangs, each of
// another UID.
func tickets(chance *rand.Rand, n int) []queue.Ticket {
	gangs := make([]queue.Ticket, 4)
	for i := range gangs {
		gangs[i] = queue.Ticket{Gang: at(chance.IntN(3000), fmt.Sprint("g", i)), Partial: chance.IntN(2) == 0}
	}
	var out []queue.Ticket
	for i := range n {
		k := queue.Ticket{Age: at(chance.IntN(3000), fmt.Sprintf("%04d-%d", chance.IntN(10000), i)), Priority: int32(chance.IntN(2))}
		if g := chance.IntN(8); g < len(gangs) {
			if k.Gang, k.Partial = gangs[g].Gang, gangs[g].Partial; !k.Partial {
				k.Over = int64(max(0, chance.IntN(8)-4))
			}
			k.Created = k.Gang.Created.Add(time.Duration(chance.IntN(2000)) * time.Millisecond)
		}
		out = append(out, k)
	}
	return out
}

// TestCompareIsATotalOrder sorts random tickets from two different shufflings: the
// order is the same, and each ticket is before all that follow it. Pods of one gang
// and priority that it needs stand together.
func TestCompareIsATotalOrder(t *testing.T) {
	for seed := range uint64(200) {
		chance := rand.New(rand.NewPCG(seed, 3))
		all := tickets(chance, 40)
		other := slices.Clone(all)
		chance.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		slices.SortFunc(all, queue.Compare)
		slices.SortFunc(other, queue.Compare)
		if !slices.Equal(all, other) {
			t.Fatalf("seed %d: two shufflings sort to different orders", seed)
		}
		left := map[string]bool{}
		for i, a := range all {
			for _, b := range all[i+1:] {
				if queue.Compare(a, b) >= 0 || queue.Compare(b, a) <= 0 {
					t.Fatalf("seed %d: %+v and %+v are not in one order", seed, a, b)
				}
			}
			key := fmt.Sprint(a.Priority, a.Gang.UID, a.Over)
			if a.Gang.UID != "" && left[key] {
				t.Fatalf("seed %d: another stands between pods of gang %s", seed, a.Gang.UID)
			}
			if i+1 < len(all) && (all[i+1].Gang.UID != a.Gang.UID || all[i+1].Priority != a.Priority || all[i+1].Over != a.Over) {
				left[key] = true
			}
		}
	}
}
