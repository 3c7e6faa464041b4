package exporter

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// xidWindow is the time that DCGM_EXP_XID_ERRORS_COUNT looks back on:
// dcgm-exporter's default.
const xidWindow = 5 * time.Minute

// Xids counts the Xids of a node's GPUs. Its zero value is ready. It is safe for
// concurrent use.
type Xids struct {
	mu     sync.Mutex
	counts map[xidKey]*xidCount
}

type xidKey struct {
	uuid string // of the GPU; "" is one that the driver could not name
	xid  int
}

// xidCount keeps the times of the newest events only: 1,000 bound what a GPU that
// reports without end costs.
type xidCount struct {
	total  int64
	recent []time.Time // within the window, oldest first
}

const mostRecent = 1000

// Note counts one Xid.
func (x *Xids) Note(uuid string, xid int, at time.Time) {
	if xid == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.counts == nil {
		x.counts = map[xidKey]*xidCount{}
	}
	c := x.counts[xidKey{uuid, xid}]
	if c == nil {
		c = &xidCount{}
		x.counts[xidKey{uuid, xid}] = c
	}
	c.total++
	c.forget(at)
	if len(c.recent) >= mostRecent {
		c.recent = slices.Delete(c.recent, 0, len(c.recent)-mostRecent+1)
	}
	c.recent = append(c.recent, at)
}

// forget drops what is older than the window.
func (c *xidCount) forget(now time.Time) {
	old := 0
	for old < len(c.recent) && now.Sub(c.recent[old]) > xidWindow {
		old++
	}
	c.recent = slices.Delete(c.recent, 0, old)
}

// xidTally is one row of the two metrics.
type xidTally struct {
	xidKey
	total  int64
	recent int
}

// tally lists the counts by GPU and code.
func (x *Xids) tally(now time.Time) []xidTally {
	x.mu.Lock()
	defer x.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(x.counts), func(a, b xidKey) int {
		return cmp.Or(cmp.Compare(a.uuid, b.uuid), cmp.Compare(a.xid, b.xid))
	})
	out := make([]xidTally, 0, len(keys))
	for _, k := range keys {
		c := x.counts[k]
		c.forget(now)
		out = append(out, xidTally{k, c.total, len(c.recent)})
	}
	return out
}
