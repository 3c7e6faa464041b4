package checkpoint_test

import (
	"testing"
	"time"

	"berth.dev/berth/core/checkpoint"
)

func TestReported(t *testing.T) {
	for message, want := range map[string]time.Time{
		"":                       {},
		"out of memory":          {},
		"berth-checkpoint: soon": {},
		"berth-checkpoint: -5s":  {},
		"berth-checkpoint: 90s":  start.Add(-90 * time.Second),
		"step 7\nberth-checkpoint: 2026-01-02T03:00:00Z\nbye\n":                   time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC),
		"berth-checkpoint: 90s\nberth-checkpoint: 10s":                            start.Add(-10 * time.Second),
		checkpoint.Report(start.In(time.FixedZone("", 3600)).Add(-2 * time.Hour)): start.Add(-2 * time.Hour),
	} {
		if got := checkpoint.Reported(message, start); !got.Equal(want) {
			t.Errorf("%q: %v, want %v", message, got, want)
		}
	}
}

func TestStopped(t *testing.T) {
	for _, tt := range []struct {
		name          string
		saves         checkpoint.Saves
		exit          int
		proof, missed string
	}{
		{"a checkpoint since it was asked", checkpoint.Saves{OnSignal: true, Last: start.Add(time.Second)}, 0, "its checkpoint of 2026-01-02T03:04:06Z", ""},
		{"that proves more than how it ended", checkpoint.Saves{OnSignal: true, Code: 85, Last: start}, 137, "its checkpoint of 2026-01-02T03:04:05Z", ""},
		{"an older checkpoint proves nothing", checkpoint.Saves{OnSignal: true, Last: start.Add(-time.Second)}, 143, "", ""},
		{"a program that was killed", checkpoint.Saves{OnSignal: true}, 137, "", "did not end within its grace period and was killed, so its last checkpoint may be an older one: set a greater terminationGracePeriodSeconds"},
		{"the exit code that proves it", checkpoint.Saves{OnSignal: true, Code: 85}, 85, "exit code 85", ""},
		{"another exit code", checkpoint.Saves{OnSignal: true, Code: 85}, 1, "", "ended with exit code 1 and not with 85, so its last checkpoint may be an older one: see its log"},
		{"nothing is known", checkpoint.Saves{OnSignal: true}, 0, "", ""},
		{"a program that does not save its work then", checkpoint.Saves{Every: time.Minute}, 137, "", ""},
	} {
		if proof, missed := tt.saves.Stopped(start, tt.exit); proof != tt.proof || missed != tt.missed {
			t.Errorf("%s: %q, %q; want %q, %q", tt.name, proof, missed, tt.proof, tt.missed)
		}
	}
	if proof, _ := (checkpoint.Saves{Last: start}).Stopped(time.Time{}, 0); proof != "" {
		t.Errorf("a program that was not asked to stop: %q", proof)
	}
}
