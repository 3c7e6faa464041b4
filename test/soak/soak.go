// Package soak says how much of a long test runs: a part in `make test`, all of
// it in `make soak`.
package soak

import "os"

// Variable is the environment variable that `make soak` sets to 1. No other
// place reads it.
const Variable = "BERTH_SOAK"

// Count returns how many seeds, kills, pods or steps a test runs: usual, or full
// in a soak. A test that calls it must show the same with either number; usual is
// large enough to find a mistake that most runs would meet.
func Count[N ~int | ~int64 | ~uint64](usual, full N) N {
	if os.Getenv(Variable) == "1" {
		return full
	}
	return usual
}
