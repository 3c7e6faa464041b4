package gang

// First is Task.first.
func (t *Task) First(count int) *Task { return t.first(count) }
