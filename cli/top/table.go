package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/cli/nodes"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
)

// barWidth is how many columns a utilization of 100% takes.
const barWidth = 8

// table has a line for each row. bars draws utilization too.
func table(rows []Row, now time.Time, wide, bars bool) *term.Table {
	t := &term.Table{Head: []string{"NODE", "GPU", "PRODUCT", "UTIL", "MEMORY", "POWER", "SHARE", "HOLDER", "USER", "SINCE", "HEALTH"}, Gap: 2, Spare: []string{"SHARE", "SINCE", "PRODUCT", "POWER", "USER"}}
	if wide {
		t.Head = append(t.Head, "POD", "UUID")
	}
	for i := range rows {
		r := &rows[i]
		product, since := gpu.ShortName(r.Product), "-"
		if wide {
			product = r.Product
		}
		if r.Name != "" {
			since = duration.HumanDuration(now.Sub(r.since))
		}
		cells := []string{r.Node, r.index, product, utilText(r, bars), memoryText(r), powerText(r), r.Share, r.holder, cmp.Or(r.User, "-"), since, r.health}
		if wide {
			cells = append(cells, cmp.Or(r.Pod, "-"), r.UUID)
		}
		t.Add(cells...)
	}
	t.Alarm = func(row, column int) bool { return (column == 1 || column == 10) && !rows[row].Healthy }
	return t
}

func utilText(r *Row, bars bool) string {
	switch {
	case r.Utilization == nil:
		return "-"
	case bars:
		return fmt.Sprintf("%s %3.0f%%", bar(*r.Utilization), *r.Utilization*100)
	}
	return fmt.Sprintf("%.0f%%", *r.Utilization*100)
}

// bar is a ratio as blocks, to the eighth of one.
func bar(ratio float64) string {
	eighths := int(min(max(ratio, 0), 1)*barWidth*8 + 0.5)
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string(rune('█' + 8 - rest)) // the blocks from an eighth to seven follow the full one
	}
	return text + strings.Repeat("·", barWidth-(eighths+7)/8)
}

// memoryText is what is used, of what there is, in GiB.
func memoryText(r *Row) string {
	all := nodes.MemoryText(r.MemoryBytes)
	if r.MemoryUsedBytes == nil {
		return all
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(*r.MemoryUsedBytes)/(1<<30)), ".0") + "/" + all
}

func powerText(r *Row) string {
	if r.PowerWatts == nil {
		return "-"
	}
	return fmt.Sprintf("%.0fW", *r.PowerWatts)
}

// summary is all GPUs in one line.
func (s *snapshot) summary() string {
	t := &s.total
	parts := []string{
		term.Count(t.Physical, "GPU"), term.MilliText(t.Held) + " held", term.FreeText(t.Free) + " free", fmt.Sprintf("%d unhealthy", t.Unhealthy),
	}
	if t.BusyKnown {
		parts = append(parts, fmt.Sprintf("held ones %.0f%% busy", t.Busy*100))
	}
	watts := 0.0
	for i := range s.rows {
		if p := s.rows[i].PowerWatts; p != nil {
			watts += *p
		}
	}
	switch {
	case watts >= 1000:
		parts = append(parts, fmt.Sprintf("%.1f kW", watts/1000))
	case watts > 0:
		parts = append(parts, fmt.Sprintf("%.0f W", watts))
	}
	if s.waiting > 0 {
		parts = append(parts, term.Count(s.waiting, "pod")+" waiting")
	}
	return strings.Join(parts, ", ")
}
