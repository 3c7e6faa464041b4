package cost

import (
	"math"
	"time"
)

// IdleReport is which pods hold GPUs and do next to nothing with them. Its JSON is what Berth serves and prints.
type IdleReport struct {
	Now  time.Time `json:"now"`
	Rows []IdleRow `json:"rows"`
}

// IdleRow is one Idler.
type IdleRow struct {
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       string    `json:"uid"`
	Kind      string    `json:"kind"` // of the object that was applied
	Owner     string    `json:"owner"`
	User      string    `json:"user"`
	Queue     string    `json:"queue"`
	Node      string    `json:"node"`
	Product   string    `json:"product"`
	GPUs      float64   `json:"gpus"`
	Since     time.Time `json:"since"`
	// Shared is that other pods use the same GPUs, and that it is the GPUs that do next to nothing.
	Shared           bool   `json:"deviceLevel"`
	CostMicros       int64  `json:"costMicros"`       // since then, in millionths of the currency
	CostMicrosAnHour int64  `json:"costMicrosAnHour"` // at the price of now
	Currency         string `json:"currency"`         // "" is that no price is known
}

// NewIdleReport makes a report of idlers. whole is a GPU in parts.
func NewIdleReport(list []Idler, now time.Time, whole int64) *IdleReport {
	r := &IdleReport{Now: now, Rows: make([]IdleRow, 0, len(list))}
	for i := range list {
		one := &list[i]
		p := &one.Pod
		r.Rows = append(r.Rows, IdleRow{
			Namespace: p.Namespace, Pod: p.Name, UID: p.UID, Kind: p.Kind, Owner: p.Owner, User: p.User, Queue: p.Queue, Node: one.Node, Product: one.Product,
			GPUs: gpus(one.Parts, whole), Since: one.Since, Shared: one.Shared, CostMicros: one.Micros, CostMicrosAnHour: one.HourMicros, Currency: one.Currency,
		})
	}
	return r
}

// UseReport is what holders did with their GPUs. Its JSON is what Berth serves.
type UseReport struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Began time.Time `json:"began"`
	By    By        `json:"by"`
	// GraceSeconds is how long GPUs do nothing before that counts as idle.
	GraceSeconds int64          `json:"graceSeconds"`
	Rows         []UseReportRow `json:"rows"`
}

// UseReportRow is one UseRow.
type UseReportRow struct {
	Name         string  `json:"name"`
	Pods         int     `json:"pods"`
	GPUHours     float64 `json:"gpuHours"`
	IdleGPUHours float64 `json:"idleGPUHours"`
	CostMicros   int64   `json:"costMicros"`
	IdleMicros   int64   `json:"idleMicros"`
	Currency     string  `json:"currency"` // "" is that no price is known
	// KnownGPUHours are those of which it is known how busy the GPUs were, and Utilization their mean, 0-1; null is that none is.
	KnownGPUHours float64  `json:"knownGPUHours"`
	Utilization   *float64 `json:"utilization"`
	GPUsOfAPod    float64  `json:"gpusOfAPod"`  // most that one pod held
	BusyOfAPod    int      `json:"busyOfAPod"`  // most GPUs of one pod that were busy at once
	MemoryBytes   int64    `json:"memoryBytes"` // most that one pod used of a GPU
	Shared        bool     `json:"deviceLevel"`
	// LongestHours is for how long one pod has held, also before From.
	LongestHours float64 `json:"longestHours"`
	User         string  `json:"user"` // of all pods; "" is not known, or several
}

// NewUseReport makes a report of rows. whole is a GPU in parts.
func NewUseReport(rows []UseRow, began time.Time, q *UseQuestion, whole int64) *UseReport {
	r := &UseReport{From: q.From.Truncate(hour), To: q.To, Began: began, By: q.By, GraceSeconds: int64(q.Grace / time.Second), Rows: make([]UseReportRow, 0, len(rows))}
	hours := func(partMillis int64) float64 { return gpus(partMillis, whole) / float64(hour.Milliseconds()) }
	for i := range rows {
		u := &rows[i]
		row := UseReportRow{
			Name: u.Name, Pods: u.Pods, GPUHours: hours(u.PartMillis), IdleGPUHours: hours(u.IdleMillis), CostMicros: u.Micros, IdleMicros: u.IdleMicros, Currency: u.Currency,
			KnownGPUHours: hours(u.KnownMillis), GPUsOfAPod: gpus(u.Parts, whole), BusyOfAPod: u.Devices, MemoryBytes: u.MemoryBytes, Shared: u.Shared,
			LongestHours: math.Round(1000*u.Longest.Hours()) / 1000, User: u.User,
		}
		if u.KnownMillis > 0 {
			row.Utilization = new(math.Round(1000*float64(u.UsedMillis)/float64(u.KnownMillis)) / 1000)
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// UseQuestion is what a UseReport is asked for. Grace is how long GPUs do nothing before that counts as idle.
type UseQuestion struct {
	From, To time.Time
	By       By
	Grace    time.Duration
}

// Grace is the UseQuestion.Grace that is used if none is asked for.
const Grace = 10 * time.Minute

func gpus(parts, whole int64) float64 { return float64(parts) / float64(whole) }
