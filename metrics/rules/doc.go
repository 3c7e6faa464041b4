// Package rules has the alerts about GPUs, evaluates them, and writes them as Prometheus and its operator read them: one list serves
// all. It sends what changes to a receiver of webhooks.
package rules
