package checkpoint_test

import (
	"testing"
	"time"

	"berth.dev/berth/core/checkpoint"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestParse(t *testing.T) {
	for text, want := range map[string]checkpoint.Saves{
		"": {}, "none": {}, "on-signal": {OnSignal: true}, "on-signal:85": {OnSignal: true, Code: 85}, "30m": {Every: 30 * time.Minute}, "periodic:1h30m": {Every: 90 * time.Minute},
	} {
		if got, err := checkpoint.Parse(text); got != want || err != nil {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"weekly", "periodic", "periodic:", "periodic:soon", "0", "0s", "-5m", "30", "On-Signal", "on-signal:30m", "on-signal:0", "on-signal:137", "on-signal:256", "on-signal:", "none:30m"} {
		_, err := checkpoint.Parse(text)
		if want := `"` + text + `" does not say how work is saved: write on-signal, periodic: and how often, such as periodic:30m, or none`; err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLost(t *testing.T) {
	for _, tt := range []struct {
		name  string
		saves checkpoint.Saves
		ran   time.Duration
		want  time.Duration
		says  string // of 8 GPUs
	}{
		{"a program that saves nothing loses all", checkpoint.Saves{}, 24 * time.Minute, 24 * time.Minute, "it loses 3.2 GPU-hours of work, as it does not say that it saves any"},
		{"a program that saves on a signal loses nothing", checkpoint.Saves{OnSignal: true}, time.Hour, 0, "it loses nothing if it saves its work when it is asked to stop, as it says"},
		{"unless it is not asked", checkpoint.Saves{OnSignal: true, Unasked: true}, time.Hour, time.Hour, "it loses 8.0 GPU-hours of work, as it could not be asked to stop"},
		{"a program that saves periodically loses a period at most", checkpoint.Saves{Every: 30 * time.Minute}, time.Hour, 30 * time.Minute, "it loses at most 4.0 GPU-hours of work, as it saves it every 30m"},
		{"and no more than it has run", checkpoint.Saves{Every: time.Hour}, time.Minute, time.Minute, "it loses at most 8 GPU-minutes of work, as it saves it every 1h"},
		{"a checkpoint that is known counts", checkpoint.Saves{Every: 30 * time.Minute, Last: start.Add(58 * time.Minute)}, time.Hour, 2 * time.Minute, "it loses 16 GPU-minutes of work, since its last checkpoint of 2026-01-02T04:02:05Z"},
		{"also if it is older than a period", checkpoint.Saves{Every: 5 * time.Minute, Last: start.Add(30 * time.Minute)}, time.Hour, 30 * time.Minute, "it loses 4.0 GPU-hours of work, since its last checkpoint of 2026-01-02T03:34:05Z"},
		{"one of before its start does not", checkpoint.Saves{Last: start.Add(-time.Hour)}, time.Hour, time.Hour, "it loses 8.0 GPU-hours of work, as it does not say that it saves any"},
		{"one of the future has lost nothing", checkpoint.Saves{Last: start.Add(2 * time.Hour)}, time.Hour, 0, "it loses a GPU-minute or less of work, since its last checkpoint of 2026-01-02T05:04:05Z"},
		{"a start in the future has lost nothing", checkpoint.Saves{}, -time.Hour, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.saves.Lost(start, start.Add(tt.ran)); got != tt.want {
				t.Errorf("lost %v, want %v", got, tt.want)
			}
			if got := tt.saves.Sentence(start, start.Add(tt.ran), 8000); got != tt.says {
				t.Errorf("%q, want %q", got, tt.says)
			}
		})
	}
	if lost, text := (checkpoint.Saves{}).Lost(time.Time{}, start), (checkpoint.Saves{}).Sentence(time.Time{}, start, 8000); lost != 0 || text != "" {
		t.Errorf("before its start: %v, %q", lost, text)
	}
}
