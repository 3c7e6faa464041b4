// Package exporter finds dcgm-exporter among pods, reads its metrics, and gets the token that
// the agents' exporters ask for. It scrapes nothing itself.
package exporter
