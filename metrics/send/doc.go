// Package send writes readings out while they are taken: by Prometheus' remote write, and by OTLP, the protocol of OpenTelemetry. The taking of
// readings never waits for a receiver: samples that it does not take in time are kept within bounds, and beyond them dropped and counted.
package send
