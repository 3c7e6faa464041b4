package quota_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/quota"
)

func TestEndings(t *testing.T) {
	tree := quota.NewTree([]quota.Spec{
		{Name: "org", Quotas: []quota.Quota{gpus(8)}}, {Name: "red", Parent: "org"}, {Name: "blue", Parent: "org"},
	})
	pod := func(id, workload, queue string, start time.Duration) quota.Holder {
		return quota.Holder{ID: id, Workload: workload, Queue: queue, Start: epoch.Add(start)}
	}
	leaving := pod("l", "l", "red", 0)
	leaving.Leaving = true
	starting := quota.Holder{ID: "s", Workload: "s", Queue: "red"}
	gang := []quota.Holder{pod("g-b", "g", "red", time.Hour), pod("g-a", "g", "red", 0)}
	for name, c := range map[string]struct {
		rules       map[string]quota.Rule
		at          time.Duration
		holders     []quota.Holder
		evict, warn []string
		next        time.Duration // 0 is never
	}{
		"no rule":                        {nil, 100 * time.Hour, gang, nil, nil, 0},
		"long before the end":            {map[string]quota.Rule{"red": {Most: 10 * time.Hour}}, time.Hour, gang, nil, nil, 9*time.Hour + 50*time.Minute},
		"ten minutes before the end":     {map[string]quota.Rule{"red": {Most: 10 * time.Hour}}, 9*time.Hour + 50*time.Minute, gang, nil, []string{"g red g-a g-b"}, 10 * time.Hour},
		"a tenth before, of a short one": {map[string]quota.Rule{"red": {Most: 10 * time.Minute}}, 9 * time.Minute, gang, nil, []string{"g red g-a g-b"}, 10 * time.Minute},
		"at the end":                     {map[string]quota.Rule{"red": {Most: 10 * time.Hour}}, 10 * time.Hour, gang, []string{"g red g-a g-b"}, nil, 0},
		"the shortest rule applies":      {map[string]quota.Rule{"red": {Most: 3 * time.Hour}, "org": {Most: 2 * time.Hour}}, 2 * time.Hour, gang, []string{"g org g-a g-b"}, nil, 0},
		"a queue above is drained":       {map[string]quota.Rule{"red": {Most: 3 * time.Hour}, "org": {Drain: true}}, 0, gang, []string{"g org g-a g-b"}, nil, 0},
		"a queue beside is drained":      {map[string]quota.Rule{"blue": {Drain: true}}, 0, gang, nil, nil, 0},
		"one that has not begun to run":  {map[string]quota.Rule{"red": {Most: time.Hour}}, 3 * time.Hour, []quota.Holder{starting}, nil, nil, 0},
		"one that ends anyway":           {map[string]quota.Rule{"red": {Drain: true}}, 0, []quota.Holder{leaving}, nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			evict, warn, next := quota.Endings(epoch.Add(c.at), tree, c.holders, c.rules)
			words := func(list []quota.Ending) (out []string) {
				for _, e := range list {
					text := e.Workload + " " + e.Queue
					for _, id := range e.Pods {
						text += " " + id
					}
					out = append(out, text)
				}
				return out
			}
			if diff := cmp.Diff(c.evict, words(evict)); diff != "" {
				t.Errorf("evicted -want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.warn, words(warn)); diff != "" {
				t.Errorf("warned -want +got\n%s", diff)
			}
			want := time.Time{}
			if c.next > 0 {
				want = epoch.Add(c.next)
			}
			if !next.Equal(want) {
				t.Errorf("next is %v, want %v", next, want)
			}
		})
	}
}
