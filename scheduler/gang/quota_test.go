package gang_test

import (
	"strings"
	"testing"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/kube/kubetest"
	schedulergang "berth.dev/berth/scheduler/gang"
)

// TestNoMoreMembersThanThereIsQuotaFor has gangs of which only some pods have quota.
func TestNoMoreMembersThanThereIsQuotaFor(t *testing.T) {
	for name, c := range map[string]struct {
		gpus  []int // of each pod
		most  int   // that may be placed for another reason; 0 is all
		count int
		want  string // the members that are planned
		limit int    // how many of them may be placed; 0 is all
	}{
		"all where there is quota for all":             {[]int{0, 1, 1}, 0, 3, "a b c", 0},
		"any of pods that ask for the same":            {[]int{1, 1, 1}, 0, 2, "a b c", 2},
		"fewer where others wait":                      {[]int{1, 1, 1}, 1, 2, "a b c", 1},
		"only those that were counted, if they differ": {[]int{0, 1, 1}, 0, 2, "a b", 0},
	} {
		t.Run(name, func(t *testing.T) {
			task := &schedulergang.Task{Task: &gang.Task{Most: c.most}}
			for i, n := range c.gpus {
				pod := kubetest.Pod(string(rune('a'+i)), "")
				if n > 0 {
					pod = kubetest.Pod(string(rune('a'+i)), "", "nvidia.com/gpu", n)
				}
				task.Pods, task.Members = append(task.Pods, pod), append(task.Members, pod.Name)
			}
			got := task.First(c.count)
			if members := strings.Join(got.Members, " "); members != c.want || got.Most != c.limit || len(got.Pods) != len(got.Members) {
				t.Errorf("planned are %q, at most %d; want %q, at most %d", members, got.Most, c.want, c.limit)
			}
			if len(task.Members) != len(c.gpus) || task.Most != c.most {
				t.Errorf("the task itself has changed")
			}
		})
	}
}
