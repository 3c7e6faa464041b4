package quota_test

import (
	"testing"

	"berth.dev/berth/core/quota"
)

func TestAReclaimIsReadFromItsWords(t *testing.T) {
	r := quota.Reclaim{From: "team-a", By: "team-b"}
	for _, text := range []string{r.Sentence(), r.OnNode("gpu-node-1"), r.Message("default-scheduler"), "its pod train-0 was " + r.OnNode("n1")} {
		if got, ok := quota.ReclaimIn(text); !ok || got != r {
			t.Errorf("ReclaimIn(%q) = %v, %v, want %v", text, got, ok, r)
		}
	}
	if got, ok := quota.ReclaimIn("Preempted by pod 1 on node n1, for pod team-b/x of priority 7"); ok {
		t.Errorf("a preemption is read as %v", got)
	}
}
