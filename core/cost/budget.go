package cost

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Budget is what the pods of a queue, and of those below it, may cost in a month.
type Budget struct {
	Queue    string
	Under    []string // the names of the queue and of those below it
	Micros   int64    // millionths of Currency; more than 0
	Currency string
	WarnAt   []int // percentages to announce when they are reached; more than 0
}

// recentTime is the time whose costs are taken to go on.
const recentTime = 7 * Day

// BudgetMonth is the month of UTC that a time is in, up to its end.
func BudgetMonth(now time.Time) Period {
	now = now.UTC()
	from := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return Period{from, from.AddDate(0, 1, 0)}
}

// RecentTime is the time before now whose costs a forecast takes to go on: seven days, or from when the ledger began.
func RecentTime(now, began time.Time) Period {
	return Period{latest(now.Add(-recentTime).Truncate(hour), began.Truncate(hour)), now}
}

// BudgetReport is how budgets stand. Its JSON is what Berth serves and prints.
type BudgetReport struct {
	Now   time.Time        `json:"now"`
	Began time.Time        `json:"began"` // when the ledger did: nothing is known of the time before
	Rows  []BudgetStanding `json:"rows"`  // by queue
}

// BudgetStanding is how a budget stands at a time. Amounts are in millionths of Currency.
type BudgetStanding struct {
	Queue          string `json:"queue"`
	Month          string `json:"month"` // such as 2026-11, of UTC
	Currency       string `json:"currency"`
	BudgetMicros   int64  `json:"budgetMicros"`
	SpentMicros    int64  `json:"spentMicros"`
	ForecastMicros int64  `json:"forecastMicros"` // at the end of the month
	Percent        int    `json:"percent"`        // of the budget that is spent, rounded down
	Reached        int    `json:"reached"`        // the highest of the percentages to warn at that is spent; 0 is none
	// RunsOut is when the budget is spent if it goes on like this; null is that it lasts, and a time that has passed that it is spent.
	RunsOut *time.Time `json:"runsOut"`
	// Others is what was spent in other currencies, and UnpricedGPUHours what was held without a price: these do not count.
	Others           []Amount `json:"others"`
	UnpricedGPUHours float64  `json:"unpricedGPUHours"`
}

// StandingOf returns how a budget stands. month are the charges of the month so far, by Queue, and recent those of a RecentTime. whole is
// a GPU in parts.
//
// The forecast is what is spent, and for the rest of the month the mean cost of the recent time. It knows nothing of weekends or of work
// that is planned.
func StandingOf(b *Budget, month, recent []Row, of Period, now time.Time, whole int64) BudgetStanding {
	spent, others, unpriced := b.sum(month)
	lately, _, _ := b.sum(recent)
	s := BudgetStanding{
		Queue: b.Queue, Month: now.UTC().Format("2006-01"), Currency: b.Currency, BudgetMicros: b.Micros, SpentMicros: spent, ForecastMicros: spent, Others: others,
		UnpricedGPUHours: gpus(unpriced, whole) / float64(hour.Milliseconds()),
	}
	if s.Others == nil {
		s.Others = []Amount{}
	}
	s.Percent = int(min(spent, math.MaxInt64/100) * 100 / b.Micros)
	for _, at := range b.WarnAt {
		if at <= s.Percent {
			s.Reached = max(s.Reached, at)
		}
	}
	rest, rate := BudgetMonth(now).To.Sub(now).Hours(), 0.0
	if length := of.To.Sub(of.From).Hours(); length > 0 {
		rate = float64(lately) / length
	}
	s.ForecastMicros += int64(math.Round(rate * rest))
	switch left := float64(b.Micros - spent); {
	case left <= 0:
		s.RunsOut = &now
	case rate > 0 && left/rate < rest:
		s.RunsOut = new(now.Add(time.Duration(left / rate * float64(hour))).Truncate(time.Minute))
	}
	return s
}

// sum adds up what the queues of a budget are charged: in its currency, and in others; and the unpriced parts of GPUs times milliseconds.
func (b *Budget) sum(rows []Row) (micros int64, others []Amount, unpriced int64) {
	for i := range rows {
		r := &rows[i]
		switch {
		case r.What != Held || !slices.Contains(b.Under, r.Name):
		case r.Currency == b.Currency:
			micros += r.Micros
		case r.Currency != "":
			others = AddAmounts(others, Amount{r.Currency, r.Micros})
		default:
			unpriced += r.Unpriced
		}
	}
	return micros, others, unpriced
}

// NewBudgetReport makes a report of standings.
func NewBudgetReport(list []BudgetStanding, now, began time.Time) *BudgetReport {
	r := &BudgetReport{Now: now, Began: began, Rows: slices.Clone(list)}
	if r.Rows == nil {
		r.Rows = []BudgetStanding{}
	}
	slices.SortFunc(r.Rows, func(a, b BudgetStanding) int { return cmp.Compare(a.Queue, b.Queue) })
	return r
}
