// Package exporter finds dcgm-exporter among pods, reads its metrics, and gets the token that
// the agents' exporters ask for; and reads what the metrics API says of a pod's CPU. It scrapes nothing itself.
package exporter
