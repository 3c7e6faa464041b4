package quota

import "berth.dev/berth/core/quota"

// Book returns what q counts in.
func (q *Quota) Book() *quota.Book { return q.book }

// Known is how many pods and workloads q knows something of.
func (q *Quota) Known() int {
	return len(q.pods) + len(q.leads) + len(q.works) + len(q.allowed) + len(q.only) + len(q.asked) + len(q.again) + len(q.retried) + len(q.called)
}
