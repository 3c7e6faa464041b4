package explain

import "time"

// Rested lets r do at once what it would put off.
func Rested(r *Refusals) {
	r.swept, r.read = time.Time{}, pause{}
	for _, a := range r.asks {
		a.whole = pause{}
	}
}

// Reread is the situation of a newcomer with nothing of it read yet.
func Reread(s *Situation) *Situation {
	out := *s
	out.counted, out.line, out.placers, out.judged = nil, nil, nil, nil
	return &out
}

// Relined is the situation of a newcomer with its cluster counted, but nothing else read yet.
func Relined(s *Situation) *Situation {
	out := Reread(s)
	out.counted = s.counted
	return out
}
