package explain

import (
	"fmt"
	"slices"
	"strings"
)

// Shortage is that no node has room for a request now.
type Shortage struct {
	Wanted []Amount      // of GPUs; empty is a request without
	Nodes  map[Check]int // how many nodes each check turns away: those of a selector, CPU, memory, pods, GPUs, or closed
}

// String is the shortage in a few words, the same for the same counts.
func (s *Shortage) String() string {
	if len(s.Nodes) == 0 {
		return "there is no node"
	}
	parts := make([]string, 0, len(s.Nodes))
	for check, n := range s.Nodes {
		parts = append(parts, fmt.Sprint(n, " ", shortageWords(check)))
	}
	slices.Sort(parts)
	wanted := "what it asks for"
	if len(s.Wanted) > 0 {
		wanted = Amounts(s.Wanted)
	}
	return fmt.Sprintf("no node has %s for it (nodes: %s)", wanted, strings.Join(parts, ", "))
}

func shortageWords(c Check) string {
	switch c { //nolint:exhaustive // the rest is about GPUs
	case CheckSelector:
		return "not for it"
	case CheckCPU:
		return "too little CPU"
	case CheckMemory:
		return "too little memory"
	case CheckPods:
		return "too many pods"
	case CheckClosed:
		return "closed"
	}
	return "too few GPUs free"
}

// QuotaShortage is that a quota of the namespace has no room for a request.
type QuotaShortage struct {
	Quota            string
	Resource         string // as the quota names it, such as requests.nvidia.com/gpu
	Hard, Used, More string // its limit, what counts against it, and what the request would add
}

// String is the shortage as a sentence.
func (s *QuotaShortage) String() string {
	return fmt.Sprintf("quota %s allows %s of %s, %s are used, and it would take %s more", s.Quota, s.Hard, s.Resource, s.Used, s.More)
}
