// Package activator serves the requests of InferenceServices that have no ready pods: it
// follows their Services and EndpointSlices, adds itself to those of a Service while no
// pod behind it is ready, holds what comes, and steps aside once one is. While the
// API server is away, it goes on with the pods that it knew.
package activator
