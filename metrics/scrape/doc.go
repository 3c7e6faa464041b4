// Package scrape reads metrics in Prometheus' text format into a store: of exporters, which may lie, stall, restart, or send too
// much, and of this process itself. An exporter harms its own series only.
package scrape
