package queue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/queue"
)

// ticket is that of pod "a" to "z", one a second.
func ticket(name byte) queue.Ticket {
	return queue.Ticket{Age: at(int(name)*1000, string(name))}
}

func TestLines(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(l *queue.Lines) (call []string)
		call []string
		all  [][]string
	}{
		{"pods that ask for the same stand by age", func(l *queue.Lines) []string {
			return l.Join(ticket('c'), "one", false, noon)
		}, nil, [][]string{{"a", "b", "c"}}},
		{"one with another request stands in another line", func(l *queue.Lines) []string {
			return l.Join(ticket('c'), "two", false, noon)
		}, nil, [][]string{{"a", "b"}, {"c"}}},
		{"when the first leaves, the next is called", func(l *queue.Lines) []string {
			return l.Leave("a", noon)
		}, []string{"b"}, [][]string{{"b"}}},
		{"when another leaves, none is called", func(l *queue.Lines) []string {
			return l.Leave("b", noon)
		}, nil, [][]string{{"a"}}},
		{"a pod that changes its request calls the next of the line that it leaves", func(l *queue.Lines) []string {
			return l.Join(ticket('a'), "two", false, noon)
		}, []string{"b"}, [][]string{{"a"}, {"b"}}},
		{"a pod that fits with another request than before calls the next of the line that it leaves, and of the other", func(l *queue.Lines) []string {
			l.Join(ticket('d'), "two", false, noon)
			_, call := l.First(ticket('a'), "two", noon)
			return call
		}, []string{"b", "d"}, [][]string{{"b"}, {"d"}}},
		{"one that yielded is called when the first does not fit", func(l *queue.Lines) []string {
			l.Yield(ticket('c'), "one", noon)
			return l.Join(ticket('a'), "one", false, noon)
		}, []string{"c"}, [][]string{{"a", "b", "c"}}},
		{"a wake calls the first of each line, by turn", func(l *queue.Lines) []string {
			l.Join(ticket('d'), "two", false, noon)
			l.Join(ticket('c'), "three", false, noon)
			return l.Wake(noon)
		}, []string{"a", "c", "d"}, [][]string{{"a", "b"}, {"c"}, {"d"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := queue.NewLines()
			l.Join(ticket('b'), "one", false, noon)
			l.Join(ticket('a'), "one", false, noon)
			if diff := cmp.Diff(tt.call, tt.do(l)); diff != "" {
				t.Errorf("called: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(tt.all, l.All()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestAPodThatFitsYieldsToTheFirstOfItsLineForASecond(t *testing.T) {
	l := queue.NewLines()
	l.Join(ticket('a'), "one", false, noon)
	for _, tt := range []struct {
		after time.Duration
		ahead string
		call  []string
	}{
		{0, "a", []string{"a"}},
		{999 * time.Millisecond, "a", []string{"a"}},
		{time.Second, "", []string{"a"}},
	} {
		if ahead, call := l.First(ticket('b'), "one", noon.Add(tt.after)); ahead != tt.ahead || !slices.Equal(call, tt.call) {
			t.Errorf("after %v: %q comes first and %v is called, want %q and %v", tt.after, ahead, call, tt.ahead, tt.call)
		}
	}
	if ahead, _ := l.First(ticket('a'), "one", noon); ahead != "" || l.Has("a") {
		t.Errorf("the first itself yields to %q, and waits: %v", ahead, l.Has("a"))
	}
}

// TestLinesStayInOrder runs random calls and holds after each that every pod is in
// one line, that lines are in the order of their turns, and that only the first of a
// line is admitted, or one that is to be told that it does not fit. Each pod that is admitted from then on is returned.
func TestLinesStayInOrder(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		l, now := queue.NewLines(), noon
		for range 200 {
			now = now.Add(time.Duration(rng.IntN(400)) * time.Millisecond)
			k, key := ticket(byte('a'+rng.IntN(20))), fmt.Sprint(rng.IntN(3))
			kept := map[string]bool{}
			for _, uid := range slices.Concat(l.All()...) {
				kept[uid] = !l.Admits(uid)
			}
			var call []string
			switch rng.IntN(5) {
			case 0, 1:
				call = l.Join(k, key, false, now)
			case 2:
				call = l.Yield(k, key, now)
			case 3:
				_, call = l.First(k, key, now)
			default:
				call = l.Leave(k.UID, now)
			}
			for uid, was := range kept {
				if was && uid != k.UID && l.Admits(uid) && !slices.Contains(call, uid) {
					t.Fatalf("seed %d: %s is admitted now, and only %v are called", seed, uid, call)
				}
			}
			pods, lines := l.Len()
			all := l.All()
			if flat := slices.Concat(all...); len(flat) != pods || len(all) != lines {
				t.Fatalf("seed %d: %d pods in %d lines, counted %d in %d", seed, len(flat), len(all), pods, lines)
			}
			for _, line := range all {
				if !slices.IsSorted(line) || len(line) == 0 {
					t.Fatalf("seed %d: line %v", seed, line)
				}
				if !l.Admits(line[0]) {
					t.Fatalf("seed %d: %s is first and not admitted", seed, line[0])
				}
			}
		}
	}
}

func TestAPodWithAnotherTicketMovesInItsLine(t *testing.T) {
	l := queue.NewLines()
	for _, uid := range "abc" {
		k := ticket(byte(uid))
		k.Over = int64(1000 * (uid - 'a'))
		l.Join(k, "k", false, noon)
	}
	moved := ticket('c')
	if first, was := l.Rank(moved); first != "" || was != "" {
		t.Errorf("behind the first, %q is first now and %q was", first, was)
	}
	if diff := cmp.Diff([][]string{{"a", "c", "b"}}, l.All()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if l.Behind("a") != "c" || l.Behind("c") != "" {
		t.Errorf("behind the first is %q, and behind the second %q", l.Behind("a"), l.Behind("c"))
	}
	moved = ticket('a')
	moved.Over = 10_000
	if first, was := l.Rank(moved); first != "c" || was != "a" || !l.Admits("c") || l.Admits("a") {
		t.Errorf("the first goes to the end: %q is first now and %q was", first, was)
	}
	if l.Rank(ticket('x')); l.Has("x") {
		t.Error("a pod that was in no line is in one")
	}
}
