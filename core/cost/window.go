package cost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Window reads a time as OpenCost's API has it: a duration up to now (30m, 12h, 7d), today, yesterday, week, month, lastweek,
// lastmonth, or two times separated by a comma, in RFC 3339 or in seconds since 1970. Days are of UTC, and weeks begin on Sunday.
func Window(text string, now time.Time) (Period, error) {
	day := now.UTC().Truncate(Day)
	week := day.AddDate(0, 0, -int(day.Weekday()))
	month := time.Date(now.UTC().Year(), now.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	switch text {
	case "today":
		return Period{day, now}, nil
	case "yesterday":
		return Period{day.Add(-Day), day}, nil
	case "week":
		return Period{week, now}, nil
	case "month":
		return Period{month, now}, nil
	case "lastweek":
		return Period{week.AddDate(0, 0, -7), week}, nil
	case "lastmonth":
		return Period{month.AddDate(0, -1, 0), month}, nil
	}
	if from, to, two := strings.Cut(text, ","); two {
		begin, okFrom := moment(from)
		end, okTo := moment(to)
		if okFrom && okTo && begin.Before(end) {
			return Period{begin, end}, nil
		}
	}
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(number); err == nil && n > 0 && n < 10_000 {
			return Period{now.Add(-time.Duration(n) * Day), now}, nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return Period{now.Add(-d), now}, nil
	}
	return Period{}, fmt.Errorf("window=%q is not a time: write one such as 7d, 12h, today, lastmonth, or 2026-11-01T00:00:00Z,2026-11-02T00:00:00Z", text)
}

// moment reads one of two times.
func moment(text string) (time.Time, bool) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, true
	}
	seconds, err := strconv.ParseInt(text, 10, 40)
	return time.Unix(seconds, 0).UTC(), err == nil
}

// Allocation is a row in the shape that OpenCost's API answers with. GPUs have the whole price of their nodes, so the costs of all other
// resources are 0.
type Allocation struct {
	Name       string            `json:"name"`
	Properties map[string]string `json:"properties"`
	Window     struct {
		Start time.Time `json:"start"`
		End   time.Time `json:"end"`
	} `json:"window"`
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	Minutes   float64   `json:"minutes"`
	GPUCount  float64   `json:"gpuCount"` // on average
	GPUHours  float64   `json:"gpuHours"`
	GPUCost   float64   `json:"gpuCost"`
	CPUCost   float64   `json:"cpuCost"`
	RAMCost   float64   `json:"ramCost"`
	PVCost    float64   `json:"pvCost"`
	TotalCost float64   `json:"totalCost"`
}

// AggregateOf is what to add up by for a name of OpenCost's parameter aggregate; "" is that there is nothing of the kind.
func AggregateOf(name string) By {
	switch name {
	case "namespace", "":
		return Namespace
	case "node":
		return NodeName
	case "controller":
		return Workload
	}
	if by := By(name); by.label() != "" {
		return by
	}
	return ""
}

// Allocations are the rows of a report by names of OpenCost: GPUs without a holder are __idle__, and holders without a name __unallocated__.
// Currencies are not added up: costs are those in the currency of most GPU-hours, and the other currencies are returned.
func Allocations(r *Report, idle bool) (sets map[string]*Allocation, left []string) {
	sets = map[string]*Allocation{}
	hours := map[string]float64{}
	for i := range r.Rows {
		if c := r.Rows[i].Currency; c != "" {
			hours[c] += r.Rows[i].GPUHours
		}
	}
	currencies := slices.SortedFunc(maps.Keys(hours), func(a, b string) int { return cmp.Or(cmp.Compare(hours[b], hours[a]), cmp.Compare(a, b)) })
	currency := ""
	if len(currencies) > 0 {
		currency, left = currencies[0], currencies[1:]
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		name := row.Name
		switch {
		case row.What != Held.String() && !idle:
			continue
		case row.What != Held.String():
			name = "__idle__"
		case name == "":
			name = "__unallocated__"
		}
		a := sets[name]
		if a == nil {
			a = &Allocation{Name: name, Properties: map[string]string{}, Start: r.From, End: r.To, Minutes: r.To.Sub(r.From).Minutes()}
			a.Window.Start, a.Window.End = r.From, r.To
			if row.What == Held.String() && row.Name != "" {
				a.property(r.By, row.Name)
			}
			sets[name] = a
		}
		a.GPUHours += row.GPUHours
		a.GPUCount = a.GPUHours / r.To.Sub(r.From).Hours()
		if row.Currency == currency {
			a.GPUCost += float64(row.CostMicros) / million
			a.TotalCost = a.GPUCost
		}
	}
	return sets, left
}

// property names what a set is of.
func (a *Allocation) property(by By, name string) {
	switch by {
	case Namespace:
		a.Properties["namespace"] = name
	case NodeName:
		a.Properties["node"] = name
	case Workload:
		if parts := strings.SplitN(name, "/", 3); len(parts) == 3 {
			a.Properties["namespace"], a.Properties["controllerKind"], a.Properties["controller"] = parts[0], strings.ToLower(parts[1]), parts[2]
		}
	case User, Queue, Product:
	}
}
