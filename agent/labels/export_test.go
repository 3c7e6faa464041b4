package labels

import "time"

// SetClock lets tests say what time it is.
func (e *Events) SetClock(now func() time.Time) { e.now = now }
