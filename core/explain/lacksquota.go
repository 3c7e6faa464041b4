package explain

import (
	"strings"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
)

// lacksQuota is what the quotas of Berth's queues say of the pod: as they are now, or if that
// is not known as the scheduler has said it last.
func (f *Facts) lacksQuota(text string) diagnosis {
	v := &f.Quota
	if v.Cause == quota.None {
		if f.waitsFor() != queue.Quota {
			return diagnosis{}
		}
		said, _ := queue.Marked(text)
		return diagnosis{CodeQueueQuota, Queued, QuotaSentence(said)}
	}
	if f.waitsFor() == queue.Preemption { // others are being stopped for it
		return diagnosis{}
	}
	return quotaCause(v, "the pod", f.User)
}

// quotaCause is a verdict of quotas about what.
func quotaCause(v *quota.Verdict, what, user string) diagnosis {
	d := diagnosis{CodeQueueQuota, Queued, quotaPrefix + v.Sentence(what, user)}
	switch v.Cause {
	case quota.NoQueue:
		d.code = CodeQueueMissing
	case quota.Mixed: // its sentence says what helps
	case quota.Sharing:
		d.code, d.text = CodeQueueSharing, v.Sentence(what, user)+"; "+askOtherwise
	case quota.PodLimit, quota.Never:
		d.code = CodeQueueNever
		d.text += "; ask for less, or ask an administrator for a larger quota: waiting does not help"
	case quota.Stopped:
		d.code = CodeQueueStopped
		d.text += "; it starts when an administrator sets spec.stop to None"
	case quota.Spent:
		d.code = CodeQueueStopped
		d.text += "; it starts then, or when an administrator raises the budget"
	case quota.UserLimit:
		d.code = CodeUserLimit
		d.text += "; it starts when other pods of the same user have ended"
	case quota.BorrowingLimit:
		d.text += "; it starts when other pods of the queue have ended"
	case quota.Behind:
		d.text += "; it starts after that one"
	default:
		d.text += "; it starts when pods of its queue, or of those beside it, have ended"
	}
	return d
}

// askOtherwise is what helps a pod that must not use GPUs in the way in which it would.
const askOtherwise = "ask for GPUs in a way that it allows, or ask an administrator to allow this one: waiting does not help"

const quotaPrefix = "waits for quota: "

// QuotaSentence is the sentence about quotas in what kube-scheduler makes of a refusal by
// them: without how many nodes there are, and with the pods whose end it waits for.
func QuotaSentence(text string) string {
	if _, said, found := strings.Cut(text, " nodes are available: "); found {
		text = said
	}
	text, tried, _ := strings.Cut(text, " preemption: ")
	text = quotaPrefix + strings.TrimPrefix(strings.TrimRight(text, ". "), quotaPrefix)
	if strings.HasPrefix(tried, "waiting for ") || strings.HasPrefix(tried, "quota: ") {
		text += "; " + strings.TrimPrefix(tried, "quota: ")
	}
	return text
}
