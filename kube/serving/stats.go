package serving

import "time"

// Stats is a line of what an activator says at api.StatsPath: the first has all services that it knows, and later ones those
// whose figures have changed.
type Stats struct {
	Began    time.Time            `json:"began"`              // when it began to count
	Services map[string]*Requests `json:"services,omitempty"` // by namespace/name; nil is that it no longer knows the service
}

// Requests are the figures of one service at one activator, as core/serving.Traffic has them.
type Requests struct {
	InFlight   int       `json:"inFlight,omitempty"`
	Held       int       `json:"held,omitempty"`
	Stable     float64   `json:"stable,omitempty"`
	Panic      float64   `json:"panic,omitempty"`
	StableRate float64   `json:"stableRate,omitempty"`
	PanicRate  float64   `json:"panicRate,omitempty"`
	Last       time.Time `json:"last,omitzero"`
}
