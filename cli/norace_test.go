//go:build !race

package cli_test

// underRace reports that the race detector runs, whose cost is not the commands'.
const underRace = false
