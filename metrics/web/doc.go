// Package web serves readings and alerts by the HTTP API of Prometheus, for Grafana, promtool, and other programs that ask a
// Prometheus. Queries are bounded. It does not ask clients who they are: the server before it does.
package web
