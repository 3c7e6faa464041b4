package explain_test

import (
	"strings"
	"testing"

	"berth.dev/berth/core/explain"
	"berth.dev/berth/core/quota"
)

func TestASuspendedJobSaysWhatItWaitsFor(t *testing.T) {
	for name, c := range map[string]struct {
		turn           explain.Turn
		state, message string
		code           explain.Code
	}{
		"quota": {
			explain.Turn{Queue: "vision", Position: 2, Of: 3, Quota: quota.Verdict{Cause: quota.Used, Queue: "vision", Resource: quota.GPUs, Asked: 4 * quota.Whole, Held: 4 * quota.Whole, Most: 4 * quota.Whole}},
			"Queued", "suspended until its turn, as number 2 of 3 in queue vision: waits for quota: the Job asks for 4 GPUs, and all 4 GPUs of queue vision are in use; it starts when pods of its queue, or of those beside it, have ended", explain.CodeQueueQuota,
		},
		"more than its queue has": {
			explain.Turn{Queue: "vision", Position: 1, Of: 1, Quota: quota.Verdict{Cause: quota.Never, Queue: "vision", Resource: quota.GPUs, Asked: 8 * quota.Whole, Most: 4 * quota.Whole}, Problem: "an annotation is ignored"},
			"Queued", "suspended until its turn, as number 1 of 1 in queue vision: waits for quota: the Job asks for 8 GPUs, and queue vision can have 4 at most; ask for less, or ask an administrator for a larger quota: waiting does not help; an annotation is ignored", explain.CodeQueueNever,
		},
		"nodes": {
			explain.Turn{Queue: "vision", Need: 4, Fit: 3},
			"Queued", "suspended until its turn: queue vision has quota for it, and nodes have room for 3 of the 4 pods that it needs to start", explain.CodeHeld,
		},
		"nothing": {
			explain.Turn{Queue: "vision", Need: 4, Fit: 4},
			"Queued", "suspended, and its turn has come: queue vision has quota for it, and nodes have room; the scheduler resumes it", explain.CodeSuspended,
		},
		"a person": {
			explain.Turn{Left: "a person has parked it"},
			"Suspended", "not resumed in its turn: a person has parked it; kubectl patch job -n d train -p '{\"spec\":{\"suspend\":false}}' resumes it at once", explain.CodeSuspended,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := explain.Owner{Kind: "job", Namespace: "d", Name: "train", Replicas: -1, NodesFor: -1, Suspended: true, Turn: &c.turn}
			if state, message, code := o.Explain(); state != c.state || message != c.message || code != c.code {
				t.Errorf("Explain() = %s, %s, %s\nwant %s, %s, %s", state, message, code, c.state, c.message, c.code)
			}
		})
	}
}

func TestASuspendedTrainingJobSaysHowItIsResumed(t *testing.T) {
	o := explain.Owner{
		Kind: "tfjob", Namespace: "d", Name: "mnist", Replicas: -1, NodesFor: -1, Suspended: true, Resume: "berth train resume -n d mnist",
		Turn: &explain.Turn{Left: "someone has parked it"},
	}
	if _, message, _ := o.Explain(); message != "not resumed in its turn: someone has parked it; berth train resume -n d mnist resumes it at once" {
		t.Errorf("Explain() says %q", message)
	}
	o.Turn = &explain.Turn{Queue: "vision", Position: 1, Of: 1, Quota: quota.Verdict{Cause: quota.Used, Queue: "vision", Resource: quota.GPUs, Asked: 4 * quota.Whole, Held: 4 * quota.Whole, Most: 4 * quota.Whole}}
	if _, message, _ := o.Explain(); !strings.Contains(message, "waits for quota: the TFJob asks for 4 GPUs") {
		t.Errorf("Explain() says %q", message)
	}
}
