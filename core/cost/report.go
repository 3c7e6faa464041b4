package cost

import (
	"fmt"
	"slices"
	"time"
)

// Report is what GPUs cost in a time, and who had them. Its JSON is what Berth serves and prints.
type Report struct {
	From time.Time `json:"from"` // at the beginning of an hour
	To   time.Time `json:"to"`
	// Began is when the ledger did: nothing is known of the time before.
	Began  time.Time    `json:"began"`
	By     By           `json:"by"`
	Spread bool         `json:"spread"` // idle and stranded GPUs are charged to the holders of the others
	Rows   []ReportRow  `json:"rows"`
	Nodes  []NodeRemark `json:"nodes"`  // whose price is not known, or assumed
	Losses []Loss       `json:"losses"` // what the ledger has lost of the time, as its file was damaged
	// Kept is since when facts are kept; zero is that all are. Before that time only whole days are known, by names that OfDays has.
	Kept time.Time `json:"kept,omitzero"`
}

// ReportRow is one Row of a Report.
type ReportRow struct {
	Name     string  `json:"name"`             // "" if the holder has none, or there was no holder
	What     string  `json:"what"`             // held, idle, or stranded
	Reason   string  `json:"reason,omitempty"` // why it is stranded
	GPUHours float64 `json:"gpuHours"`
	// UnpricedGPUHours are those of GPUHours of which no price is known.
	UnpricedGPUHours float64 `json:"unpricedGPUHours"`
	Currency         string  `json:"currency"`     // "" is that no price is known
	CostMicros       int64   `json:"costMicros"`   // in millionths of the currency
	SpreadMicros     int64   `json:"spreadMicros"` // of CostMicros, for GPUs without a holder
}

// NodeRemark is what there is to say of the price of a node.
type NodeRemark struct {
	Name     string `json:"name"`
	Unpriced bool   `json:"unpriced"`
	Remark   string `json:"remark"`
}

// Question is what a Report is asked for.
type Question struct {
	From, To time.Time
	By       By
	Spread   bool
}

// Check returns what is wrong with a question; "" is nothing.
func (q *Question) Check(now time.Time) string {
	switch {
	case !slices.Contains(Bys, q.By) && q.By.label() == "":
		return fmt.Sprintf("cannot add up by %q: choose one of %v, or a label of pods such as label:team", q.By, Bys)
	case q.From.After(now):
		return fmt.Sprintf("%s is in the future: nothing has been charged yet", q.From.Format(time.RFC3339))
	case !q.From.Before(q.To):
		return fmt.Sprintf("the time from %s to %s has no length", q.From.Format(time.RFC3339), q.To.Format(time.RFC3339))
	}
	return ""
}

// Keep changes a question to what can be answered where facts are kept since a time: whole days before, or nothing by names of facts.
// It returns what is wrong; "" is nothing.
func (q *Question) Keep(kept time.Time) string {
	if kept.IsZero() || !q.From.Before(kept) {
		return ""
	}
	if !q.By.OfDays() {
		if !kept.Before(q.To) {
			return fmt.Sprintf("the facts of that time are not kept, only those since %s: add up by namespace, user, queue, or product", kept.Format(time.DateOnly))
		}
		q.From = kept
		return ""
	}
	q.From = q.From.Truncate(Day)
	if end := q.To.Truncate(Day); q.To.Before(kept) && end.Before(q.To) {
		q.To = end.Add(Day)
	}
	return ""
}

// NewReport answers a question from what is charged by the name that it asks for. whole is a GPU in parts.
func NewReport(rows []Row, nodes []NodeRemark, began time.Time, q *Question, whole int64) *Report {
	if q.Spread {
		rows = Spread(rows)
	}
	r := &Report{From: q.From.Truncate(hour), To: q.To, Began: began, By: q.By, Spread: q.Spread, Rows: []ReportRow{}, Nodes: nodes, Losses: []Loss{}}
	if nodes == nil {
		r.Nodes = []NodeRemark{}
	}
	hours := func(partMillis int64) float64 {
		return float64(partMillis) / float64(whole) / float64(hour.Milliseconds())
	}
	for _, row := range rows {
		r.Rows = append(r.Rows, ReportRow{
			Name: row.Name, What: row.What.String(), Reason: string(row.Reason),
			GPUHours: hours(row.PartMillis), UnpricedGPUHours: hours(row.Unpriced), Currency: row.Currency, CostMicros: row.Micros, SpreadMicros: row.Spread,
		})
	}
	return r
}
