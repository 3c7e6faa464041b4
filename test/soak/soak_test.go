package soak_test

import (
	"testing"

	"berth.dev/berth/test/soak"
)

func TestOnlyASoakRunsTheFullCount(t *testing.T) {
	for value, want := range map[string]int{"": 3, "0": 3, "yes": 3, "1": 50} {
		t.Setenv(soak.Variable, value)
		if got := soak.Pick(3, 50); got != want {
			t.Errorf("%s=%q: Pick(3, 50) = %d, want %d", soak.Variable, value, got, want)
		}
	}
}
