// Package soak says how much of a long test runs: a part in `make test`, all of
// it in `make soak`.
package soak

import "os"

// Variable is the environment variable that `make soak` sets to 1, or to "usual" for packages
// that run their usual number there. No other place reads it.
const Variable = "BERTH_SOAK"

// Pick returns usual, or full in a soak: how many seeds, kills, pods or steps a
// test runs. The test shows the same with either; usual is large enough to find a
// mistake that most runs would meet.
func Pick[T any](usual, full T) T {
	if os.Getenv(Variable) == "1" {
		return full
	}
	return usual
}
