package doctor

import (
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/internal/finding"
)

// unheldFor is for how long a node with GPUs is held by no pod until that is said.
const unheldFor = 24 * time.Hour

// UnheldSince is from when on the ledger is asked which nodes were held.
func UnheldSince(now time.Time) time.Time { return now.Add(-unheldFor).Truncate(time.Hour) }

// lateCopy is after how long a day that has ended has to have its copy.
const lateCopy = 2 * time.Hour

// unheld finds nodes with GPUs of which no pod held any for a day, by the ledger.
func (e *examined) unheld() []finding.Finding {
	began := UnheldSince(e.Now)
	if e.Ledger.Held == nil || e.Ledger.Began.After(began) {
		return nil
	}
	var nodes []string
	for i := range e.offering {
		n := &e.offering[i]
		made := e.byName[n.Name].CreationTimestamp.Time
		if e.Ledger.Held[n.Name] > 0 || made.After(began) || n.Held > 0 {
			continue
		}
		nodes = append(nodes, fmt.Sprintf("%s (%d GPUs)", n.Name, n.Physical))
	}
	if len(nodes) == 0 {
		return nil
	}
	slices.Sort(nodes)
	return []finding.Finding{warn("idle-nodes", fmt.Sprintf("no pod has held a GPU of %s for 24 hours: %s", count(len(nodes), "node"), few(nodes)),
		"`berth cost --by node --since 24h` says what that cost; find what keeps pods off (`berth nodes`, taints), or remove the nodes")}
}

// copies finds days of the ledger without a second copy.
func (e *examined) copies() []finding.Finding {
	if e.Ledger.Began.IsZero() || !e.Ledger.Copied {
		return nil
	}
	day := e.Now.Add(-lateCopy).UTC().Truncate(24*time.Hour).AddDate(0, 0, -1) // the last that must have one
	if !e.Ledger.Began.Before(day.AddDate(0, 0, 1)) || !e.Ledger.LastCopy.Before(day) {
		return nil
	}
	seen := "no day of the ledger of costs has a copy in the cluster"
	if last := e.Ledger.LastCopy; !last.IsZero() {
		seen = fmt.Sprintf("the newest copy of the ledger of costs in the cluster is of %s, %d days ago", last.Format(time.DateOnly), int(e.Now.Sub(last)/(24*time.Hour)))
	}
	return []finding.Finding{warn("ledger-copies", seen+": if its volume is lost, so are the days since",
		"see the log of `berth meter` (--usage-days), and its permissions: deploy/gpu-usage-days.yaml")}
}
