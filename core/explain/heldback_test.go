package explain_test

import (
	"testing"

	"berth.dev/berth/core/explain"
)

// TestSentencesOfTheSchedulerHaveCodes checks the code of what Berth's own scheduler has
// written into the condition of a pod, in the place of kube-scheduler's words.
func TestSentencesOfTheSchedulerHaveCodes(t *testing.T) {
	for message, want := range map[string]explain.Code{
		"its volume claim (data) has no volume yet; kubectl describe pvc -n default says why [WaitingForVolume]": explain.CodeClaimUnbound,
		"volume claim data is being deleted; create it again when it is gone [WaitingForVolume]":                 explain.CodeClaimEnds,
		"0/6 nodes are available: gang c28: its 2 pods fit, but not within one node":                             explain.CodeClique,
		"waiting for gang c28: its pods do not fit together now, and pod c28-1 says why":                         explain.CodeGang,
		"gang b16: its size is not set: add the annotation berth.dev/gang-min-count to its pods":                 explain.CodeGangInvalid,
		"waiting for 2 more pods of gang b15 (1 of 3 exist) [WaitingForGang]":                                    explain.CodeGangMissing,
	} {
		f := &explain.Facts{Namespace: "default", Name: "p", GPUs: []explain.Amount{{Resource: "nvidia.com/gpu", Count: 1}}, Claims: []string{"data"}, Pod: &explain.Pod{
			Name: "p", Conditions: []explain.Condition{{Type: explain.ConditionScheduled, Status: explain.False, Reason: "Unschedulable", Message: message}},
		}}
		r := explain.Judge(f)
		if got := f.Code(&r); got != want {
			t.Errorf("%q has the code %q, want %q: %s", message, got, want, r.Message)
		}
	}
}

// TestWhatPluginsAddAboutClaimsIsLeftOut: what DynamicResources says of claims before the
// words about preemption says nothing to a person.
func TestWhatPluginsAddAboutClaimsIsLeftOut(t *testing.T) {
	for _, said := range []string{
		"0/6 nodes are available: request gpu: device class nothing does not exist. , no new claims to deallocate, preemption: 0/6 nodes are available.",
		"0/6 nodes are available: request gpu: device class nothing does not exist. still not schedulable, preemption: 0/6 nodes are available.",
	} {
		f := explain.Facts{Namespace: "ns", Name: "p", Pod: unplaced(said)}
		if r := explain.Judge(&f); r.Message != "its resource claim names a DeviceClass that does not exist: 0/6 nodes are available: request gpu: device class nothing does not exist; name one of kubectl get deviceclasses" {
			t.Errorf("it says %q", r.Message)
		}
	}
}
