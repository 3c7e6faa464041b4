package cost

import "time"

// Rate is a Price with the time at which it ends.
type Rate struct {
	Price
	To time.Time
}

// Rerate returns what an old rate of a node becomes if its part from a time to another is priced by rules: the
// rates one after the other, which together have the time of the old one. What a node said itself stays as it is.
func Rerate(n *Node, rules Rules, old Rate, from, to time.Time) []Rate {
	from, to = later(from, old.From), earlier(to, old.To)
	if old.Source == annotation || !from.Before(to) {
		return []Rate{old}
	}
	silent := *n // what it says today it did not say then
	silent.Says, silent.Unread = false, ""
	out := appendRate(nil, old, old.From, from)
	for from.Before(to) {
		end := to
		if next := rules.Next(from); !next.IsZero() {
			end = earlier(end, next)
		}
		q := PriceOf(&silent, rules, from)
		out = appendRate(out, Rate{Price: q.price()}, from, end)
		from = end
	}
	return appendRate(out, old, to, old.To)
}

// price is a quote as it is kept.
func (q *Quote) price() Price {
	remark := q.Assumed
	if remark == "" {
		remark = q.Why
	}
	return Price{Micros: q.Micros, Currency: q.Currency, Source: q.Source, Remark: remark}
}

// appendRate appends a rate for a time, or makes the last longer if it is the same.
func appendRate(list []Rate, r Rate, from, to time.Time) []Rate {
	if !from.Before(to) {
		return list
	}
	r.From, r.To = from, to
	if len(list) > 0 {
		last := &list[len(list)-1]
		if last.Micros == r.Micros && last.Currency == r.Currency && last.Source == r.Source && last.Remark == r.Remark {
			last.To = to
			return list
		}
	}
	return append(list, r)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
