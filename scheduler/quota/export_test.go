package quota

import "berth.dev/berth/core/quota"

// Book returns what q counts in.
func (q *Quota) Book() *quota.Book { return q.book }
