package serving

import (
	"fmt"
	"strings"
	"time"
)

// Times are when a replica came how far. The zero time is that this is not known, or that there was no such step.
type Times struct {
	Created    time.Time
	Bound      time.Time // it had a node
	FetchBegan time.Time // of the container that downloads the model, its last run
	FetchEnded time.Time
	Server     time.Time // its server was started, for the only time
	Ready      time.Time
}

// Phase is a part of the time from when a replica is created until it answers.
type Phase string

// The phases, in the order in which they are written.
const (
	PhaseQueue    Phase = "queue"    // until it has a node
	PhasePull     Phase = "pull"     // images, volumes, and what else the node does
	PhaseDownload Phase = "download" // of the model
	PhaseLoad     Phase = "load"     // from the start of its server on
)

// Phases returns all phases, in their order.
func Phases() []Phase { return []Phase{PhaseQueue, PhasePull, PhaseDownload, PhaseLoad} }

// Start is how long a replica took in each phase.
type Start map[Phase]time.Duration

// StartOf divides the time until a replica answered into phases. Times are of several clocks, so none of the phases is negative; ok is false while a
// step is missing.
func StartOf(t *Times) (s Start, ok bool) {
	if t.Created.IsZero() || t.Bound.IsZero() || t.Server.IsZero() || t.Ready.IsZero() {
		return nil, false
	}
	s = Start{PhaseQueue: between(t.Created, t.Bound), PhaseDownload: 0, PhaseLoad: between(t.Server, t.Ready)}
	if !t.FetchBegan.IsZero() {
		s[PhaseDownload] = between(t.FetchBegan, t.FetchEnded)
	}
	s[PhasePull] = max(between(t.Bound, t.Server)-s[PhaseDownload], 0)
	return s, true
}

func between(from, to time.Time) time.Duration { return max(to.Sub(from), 0) }

// Total is the time of all phases.
func (s Start) Total() (sum time.Duration) {
	for _, d := range s {
		sum += d
	}
	return sum
}

// String is the start for people, as ParseStart reads it: "queue 1s, pull 2s, download 8s, load 3s".
func (s Start) String() string {
	var words []string
	for _, p := range Phases() {
		words = append(words, fmt.Sprintf("%s %s", p, s[p].Round(time.Second)))
	}
	return strings.Join(words, ", ")
}

// ParseStart reads what String has written; ok is false if a text is something else.
func ParseStart(text string) (s Start, ok bool) {
	s = Start{}
	for word := range strings.SplitSeq(text, ", ") {
		name, value, _ := strings.Cut(word, " ")
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return nil, false
		}
		s[Phase(name)] = d
	}
	for _, p := range Phases() {
		if _, has := s[p]; !has {
			return nil, false
		}
	}
	return s, len(s) == len(Phases())
}
