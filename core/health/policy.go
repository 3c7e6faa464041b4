package health

import (
	"slices"

	"berth.dev/berth/core/gpu"
)

// Codes is a set of Xids, as an administrator names them.
type Codes struct {
	All  bool  // every code, and what has none: a GPU that is lost
	Xids bool  // every code
	Some []int // these
}

// Has reports whether an Xid is in the set.
func (c Codes) Has(xid int) bool { return c.All || c.Xids || slices.Contains(c.Some, xid) }

func (c Codes) none() bool { return !c.All && !c.Xids && len(c.Some) == 0 }

// Policy says which Xids make a GPU unhealthy. The zero value is the default:
// those for which gpu.Xid says so.
type Policy struct{ disable, enable Codes }

// NewPolicy is the default but for the codes that DP_DISABLE_HEALTHCHECKS and
// DP_ENABLE_HEALTHCHECKS name. What is enabled goes before what is disabled. With
// all disabled and nothing enabled, a GPU that is lost stays healthy as well.
//
// Unlike NVIDIA's plugin, codes that are enabled beside "all" are judged: its
// documentation says so, its code does not.
func NewPolicy(disable, enable Codes) Policy { return Policy{disable: disable, enable: enable} }

// Marks reports whether an Xid makes what it hits unhealthy.
func (p Policy) Marks(xid int) bool {
	switch {
	case p.enable.Has(xid):
		return true
	case p.disable.Has(xid):
		return false
	}
	return !gpu.Xid(xid).Healthy
}

// Off reports whether nothing at all is judged, so that no events need to be
// waited for.
func (p Policy) Off() bool { return p.disable.All && p.enable.none() }

// Ignored lists the codes below 200 that mark nothing, in order, for a log.
func (p Policy) Ignored() []int {
	var out []int
	for xid := range 200 {
		if xid > 0 && !p.Marks(xid) {
			out = append(out, xid)
		}
	}
	return slices.Clip(out)
}
