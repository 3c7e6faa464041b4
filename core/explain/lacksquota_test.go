package explain_test

import (
	"testing"

	"berth.dev/berth/core/explain"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
)

func TestQuotaFirst(t *testing.T) {
	gated := func(message string) []explain.Condition {
		return []explain.Condition{{Type: explain.ConditionScheduled, Status: explain.False, Reason: "SchedulingGated", Message: message}}
	}
	verdict := func(cause quota.Cause, asked, held, most int64) quota.Verdict {
		return quota.Verdict{Cause: cause, Queue: "red", Resource: quota.GPUs, Asked: asked * quota.Whole, Held: held * quota.Whole, Most: most * quota.Whole}
	}
	tests := map[string]struct {
		says    string
		verdict quota.Verdict
		code    explain.Code
		want    string
	}{
		"what the objects say counts before what was said": {
			"waits for quota: the pod asks for 2 GPUs, and all 8 GPUs of queue red are in use [WaitingForQuota]", verdict(quota.UserLimit, 2, 1, 2), explain.CodeUserLimit,
			"waits for quota: the pod asks for 2 GPUs, and user ann holds 1 of the 2 GPUs that queue red allows for each user; it starts when other pods of the same user have ended",
		},
		"the condition counts where objects are not known": {
			"waits for quota: the pod asks for 2 GPUs, and all 8 GPUs of queue red are in use [WaitingForQuota]",
			quota.Verdict{},
			explain.CodeQueueQuota,
			"waits for quota: the pod asks for 2 GPUs, and all 8 GPUs of queue red are in use",
		},
		"a pod that no node suits either gets its quota as the cause first": {
			"waits for 2 nvidia.com/gpu", verdict(quota.Used, 2, 7, 8), explain.CodeQueueQuota,
			"waits for quota: the pod asks for 2 GPUs, and 7 of the 8 GPUs of queue red are in use; it starts when pods of its queue, or of those beside it, have ended",
		},
		"more than the queue can have is said never to start": {
			"", verdict(quota.Never, 9, 0, 8), explain.CodeQueueNever,
			"waits for quota: the pod asks for 9 GPUs, and queue red can have 8 at most; ask for less, or ask an administrator for a larger quota: waiting does not help",
		},
		"a gang with pods of two queues": {
			"",
			quota.Verdict{Cause: quota.Mixed, Queue: "red", Other: "blue"},
			explain.CodeQueueQuota,
			"waits for quota: pods of the gang are of queue red and of queue blue; it is admitted when all are of one queue (label berth.dev/queue)",
		},
		"a gang that a pod of another user has joined": {
			"",
			quota.Verdict{Cause: quota.UserLimit, Queue: "red", User: "bob", Resource: quota.GPUs, Asked: 2 * quota.Whole, Held: quota.Whole, Most: 2 * quota.Whole},
			explain.CodeUserLimit,
			"waits for quota: the pod asks for 2 GPUs, and user bob holds 1 of the 2 GPUs that queue red allows for each user; it starts when other pods of the same user have ended",
		},
		"a way that the queue does not allow": {
			"",
			quota.Verdict{Cause: quota.Sharing, Queue: "red", Ways: sharing.WayMPS | sharing.WayTimeSlicing, Allowed: sharing.WayWhole | sharing.WayMIG},
			explain.CodeQueueSharing,
			"the pod would use GPUs by TimeSlicing or MPS, and queue red allows only Whole and MIG (spec.sharing); ask for GPUs in a way that it allows, or ask an administrator to allow this one: waiting does not help",
		},
		"a spent budget":  {"", verdict(quota.Spent, 1, 0, 0), explain.CodeQueueStopped, "waits for quota: the budget of queue red is spent (spec.budget), and it admits no pods until the next month; it starts then, or when an administrator raises the budget"},
		"a stopped queue": {"", verdict(quota.Stopped, 1, 0, 0), explain.CodeQueueStopped, "waits for quota: queue red is stopped (spec.stop) and admits no pods; it starts when an administrator sets spec.stop to None"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := explain.Facts{Namespace: "a", Name: "p", GPUs: []explain.Amount{{Resource: "nvidia.com/gpu", Count: 2}}, Quota: tt.verdict, User: "ann", Pod: &explain.Pod{Name: "p", Conditions: gated(tt.says)}}
			r := explain.Judge(&f)
			if code := f.Code(&r); code != tt.code || r.Message != tt.want {
				t.Errorf("%s: %s\nwant %s: %s", code, r.Message, tt.code, tt.want)
			}
		})
	}
}
