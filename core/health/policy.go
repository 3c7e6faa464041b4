package health

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

// The environment variables of NVIDIA's device plugin that change what it judges.
const (
	EnvDisable = "DP_DISABLE_HEALTHCHECKS"
	EnvEnable  = "DP_ENABLE_HEALTHCHECKS"
)

// Policy says which Xids make a GPU unhealthy. The zero value is the default:
// those for which gpu.Xid says so.
type Policy struct {
	disabled, enabled       map[int]bool
	disableXids, disableAll bool
	enableXids              bool
}

// ParsePolicy reads the values of DP_DISABLE_HEALTHCHECKS and
// DP_ENABLE_HEALTHCHECKS: lists of Xids with commas between, in which "xids"
// and "all" stand for every code. What is enabled goes before what is disabled.
// With "all" disabled and nothing enabled, a GPU that is lost stays healthy as
// well. Case and blanks do not count; each value that is no Xid is left out and
// told of in a sentence.
//
// Unlike NVIDIA's plugin, codes that are enabled beside "all" are judged: its
// documentation says so, its code does not.
func ParsePolicy(disable, enable string) (Policy, []string) {
	var p Policy
	var all, xids bool
	var bad, more []string
	p.disabled, all, xids, bad = parseCodes(EnvDisable, disable)
	p.disableAll, p.disableXids = all, all || xids
	p.enabled, all, xids, more = parseCodes(EnvEnable, enable)
	p.enableXids = all || xids
	if p.enableXids || len(p.enabled) > 0 {
		p.disableAll = false
	}
	return p, append(bad, more...)
}

func parseCodes(name, list string) (codes map[int]bool, all, xids bool, bad []string) {
	codes = map[int]bool{}
	for word := range strings.SplitSeq(strings.ToLower(list), ",") {
		switch word = strings.TrimSpace(word); word {
		case "":
		case "all":
			all = true
		case "xids":
			xids = true
		default:
			code, err := strconv.Atoi(word)
			if err != nil || code < 1 {
				bad = append(bad, fmt.Sprintf("%s: %q is no Xid and is left out; write numbers with commas between, xids or all", name, word))
				continue
			}
			codes[code] = true
		}
	}
	return codes, all, xids, bad
}

// Marks reports whether an Xid makes what it hits unhealthy.
func (p Policy) Marks(xid int) bool {
	switch {
	case p.enableXids || p.enabled[xid]:
		return true
	case p.disableXids || p.disabled[xid]:
		return false
	}
	return !gpu.Xid(xid).Healthy
}

// Off reports whether nothing at all is judged, so that no events need to be
// waited for.
func (p Policy) Off() bool { return p.disableAll }

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
