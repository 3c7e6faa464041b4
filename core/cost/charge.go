package cost

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"berth.dev/berth/core/usage"
)

// Price is what a whole node costs from a time on.
type Price struct {
	From time.Time
	// Micros are millionths of Currency for an hour; at least 0. They count for nothing where Source is Unpriced.
	Micros   int64
	Currency string // such as USD: a label, nothing is converted
	Source   string // where it is from, for people
	Remark   string // what was assumed of it, or why no price is known
}

// Unpriced is the Source of a node of which no price is known.
const Unpriced = ""

// Charge is the price of a part of a node for an hour of the clock, or for the part of the hour in which the node was up
// and had one price.
type Charge struct {
	From, To time.Time
	usage.Line
	PartMillis int64 // parts of GPUs times milliseconds
	Micros     int64 // of the price; at least 0
	Price      int   // of those given; -1 is that none counts yet
}

// hour is what prices are for.
const hour = time.Hour

// Charges returns what each line of a node is charged in each hour, in the order of time and of lines. Spans are as
// usage.Spans returns them, for one or several times for which the node was up; prices are in the order of time.
//
// All charges of an hour are exactly the price of the time for which the node was up in it, rounded down to a whole
// millionth once for the hour: what is lost in one charge is in the next. Lines share a charge in proportion to the
// parts and the time that they had, by largest remainders.
func Charges(spans []usage.Span, prices []Price) (out []Charge) {
	var b bill
	for i := range spans {
		s := &spans[i]
		for from := s.From; from.Before(s.To); {
			start := from.Truncate(hour)
			to := earlier(start.Add(hour), s.To)
			price := -1
			for k := range prices {
				if prices[k].From.After(from) {
					to = earlier(to, prices[k].From)
					break
				}
				price = k
			}
			if b.open && (!start.Equal(b.hour) || price != b.price || !from.Equal(b.to)) {
				out = b.close(out, prices)
			}
			b.add(start, from, to, price, s.Shares)
			from = to
		}
	}
	if b.open {
		out = b.close(out, prices)
	}
	return out
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// bill is the charge that is being gathered: of a node, for a part of an hour with one price.
type bill struct {
	open     bool
	hour     time.Time
	from, to time.Time
	price    int
	lines    map[usage.Line]int64 // parts times milliseconds
	owed     int64                // of this hour, in millionths
	rest     int64                // of this hour, what is less than a millionth, in millionths times milliseconds
	of       time.Time            // the hour that owed is of
}

func (b *bill) add(hour, from, to time.Time, price int, shares []usage.Share) {
	if !b.open {
		b.open, b.hour, b.from, b.price, b.lines = true, hour, from, price, map[usage.Line]int64{}
	}
	b.to = to
	for _, s := range shares {
		b.lines[s.Line] += s.Parts * to.Sub(from).Milliseconds()
	}
}

// close appends the charges of a bill, and begins a new one.
func (b *bill) close(out []Charge, prices []Price) []Charge {
	if !b.of.Equal(b.hour) {
		b.of, b.owed, b.rest = b.hour, 0, 0
	}
	total := int64(0)
	if b.price >= 0 && prices[b.price].Source != Unpriced {
		was := b.owed
		b.owe(prices[b.price].Micros, b.to.Sub(b.from).Milliseconds())
		total = b.owed - was
	}
	lines, weights := make([]usage.Line, 0, len(b.lines)), make([]int64, 0, len(b.lines))
	for line := range b.lines {
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(x, y usage.Line) int { return cmp.Or(cmp.Compare(x.Pod, y.Pod), cmp.Compare(x.Reason, y.Reason)) })
	for _, line := range lines {
		weights = append(weights, b.lines[line])
	}
	for k, micros := range usage.Divide(total, weights) {
		out = append(out, Charge{From: b.from, To: b.to, Line: lines[k], PartMillis: weights[k], Micros: micros, Price: b.price})
	}
	b.open = false
	return out
}

// owe adds the price of some milliseconds of an hour.
func (b *bill) owe(micros, millis int64) {
	high, low := bits.Mul64(uint64(micros), uint64(millis))
	q, r := bits.Div64(high, low, uint64(hour.Milliseconds())) // at most micros, as there are at most so many milliseconds
	b.owed, b.rest = b.owed+int64(q), b.rest+int64(r)
	b.owed, b.rest = b.owed+b.rest/hour.Milliseconds(), b.rest%hour.Milliseconds()
}
