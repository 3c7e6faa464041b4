// Package cost says what GPUs are worth.
package cost
