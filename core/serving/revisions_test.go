package serving_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/serving"
)

// revisions reads a line such as "a@3 b c+1": in order of their numbers, @3 was rolled out at second 3, and +1 has a pod.
func revisions(line string) (out []serving.Revision) {
	for i, word := range strings.Fields(line) {
		r := serving.Revision{Number: int64(i + 1)}
		word, pods := strings.CutSuffix(word, "+1")
		if pods {
			r.Pods = 1
		}
		name, second, rolled := strings.Cut(word, "@")
		if r.Name = name; rolled {
			r.RolledOut = time.Unix(int64(second[0]-'0'), 0)
		}
		out = append(out, r)
	}
	return out
}

func TestKeep(t *testing.T) {
	for _, tt := range []struct {
		name, all, newest string
		number            int64
		remove            string
	}{
		{"the first revision is number 1", "", "a", 1, ""},
		{"the newest keeps its number", "a@1 b@2", "b", 2, ""},
		{"a new one gets the next number", "a@1 b@2", "c", 3, ""},
		{"one that was there before becomes the newest", "a@1 b@2", "a", 3, ""},
		{"ten are kept beside the newest", "a b c d e f g h i j k", "l", 12, "a"},
		{"one that has pods is kept", "a+1 b c d e f g h i j k l", "m", 13, "b"},
		{"one to which a rollback leads is kept", "a@1 b c d e f g h i j k l", "m", 13, "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			number, remove := serving.Keep(revisions(tt.all), tt.newest)
			if number != tt.number || strings.Join(remove, " ") != tt.remove {
				t.Errorf("number %d, and %v are removed; want %d, and %q", number, remove, tt.number, tt.remove)
			}
		})
	}
}

func TestBack(t *testing.T) {
	for _, tt := range []struct{ name, all, newest, back string }{
		{"from a revision that answers to the one before", "a@1 b@2", "b", "a"},
		{"from one that never answered to the last that did", "a@1 b@2 c", "c", "b"},
		{"over one that never answered", "a@1 b c@3", "c", "a"},
		{"a second rollback undoes the first", "b@2 a@3", "a", "b"},
		{"a second rollback before the first is complete undoes it, too", "b@2 a@1", "a", "b"},
		{"a spec that is no revision leads to the last that answered", "a@1 b@2", "", "b"},
		{"none where no other has answered", "a b@2", "b", ""},
		{"none where there is no revision", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, ok := serving.Back(revisions(tt.all), tt.newest)
			if r.Name != tt.back || ok != (tt.back != "") {
				t.Errorf("it leads to %q (%v), want %q", r.Name, ok, tt.back)
			}
		})
	}
}

func TestARolloutIsComplete(t *testing.T) {
	done := serving.Seen{Wanted: 2, Updated: 2, Ready: 2}
	if !done.Complete() {
		t.Error("all replicas of the newest revision answer, and the rollout is not complete")
	}
	for name, change := range map[string]func(*serving.Seen){
		"a replica of an earlier revision is there": func(s *serving.Seen) { s.Rolling = true },
		"a replica does not answer":                 func(s *serving.Seen) { s.Ready = 1 },
		"a replica is missing":                      func(s *serving.Seen) { s.Updated, s.Ready = 1, 1 },
		"no replica is wanted":                      func(s *serving.Seen) { *s = serving.Seen{} },
		"the spec is refused":                       func(s *serving.Seen) { s.Refused = &serving.Fault{} },
	} {
		s := done
		if change(&s); s.Complete() {
			t.Errorf("a rollout is complete, although %s", name)
		}
	}
}

// Revisions come and go in any order, and what is removed is never needed.
func TestKeepNeverRemovesWhatIsNeeded(t *testing.T) {
	var all []serving.Revision
	for step := range 200 {
		newest := string(rune('a' + step*7%23))
		number, remove := serving.Keep(all, newest)
		back, _ := serving.Back(all, newest)
		if slices.Contains(remove, newest) || slices.Contains(remove, back.Name) {
			t.Fatalf("step %d: %v are removed, the newest is %s, and a rollback leads to %s", step, remove, newest, back.Name)
		}
		all = slices.DeleteFunc(all, func(r serving.Revision) bool { return r.Name == newest || slices.Contains(remove, r.Name) })
		for _, r := range all {
			if r.Number >= number {
				t.Fatalf("step %d: %s has number %d, and the newest %d", step, r.Name, r.Number, number)
			}
		}
		r := serving.Revision{Name: newest, Number: number}
		if step%3 == 0 {
			r.RolledOut = time.Unix(int64(step+1), 0)
		}
		if all = append(all, r); len(all) > serving.HistoryLimit+2 {
			t.Fatalf("step %d: %d revisions are kept", step, len(all))
		}
	}
}
