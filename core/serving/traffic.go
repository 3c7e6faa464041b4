package serving

import "time"

// The windows over which requests are averaged.
const (
	StableWindow = time.Minute
	PanicWindow  = 6 * time.Second
)

// Traffic is what is known of the requests for one service at a moment.
type Traffic struct {
	InFlight, Held int // sent to replicas, and waiting for one
	// Stable and Panic are how many requests were at work or held at once, averaged over StableWindow and PanicWindow.
	Stable, Panic float64
	// StableRate and PanicRate are requests a second over the same windows.
	StableRate, PanicRate float64
	// Since is when counting began, and Last when the last request came or ended; zero is that none did.
	Since, Last time.Time
	// Partial is that some requests are not counted at this moment: then no replica is ended.
	Partial bool
	// Split is what came of the requests while they are divided between two revisions; nil is that they are not.
	Split *Split
}
