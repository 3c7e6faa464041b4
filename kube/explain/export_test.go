package explain

import "time"

// Rested lets r do at once what it would put off.
func Rested(r *Refusals) {
	r.swept, r.read = time.Time{}, pause{}
	for _, a := range r.asks {
		a.whole = pause{}
	}
}
