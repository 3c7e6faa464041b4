package training_test

import (
	"testing"
	"time"

	"berth.dev/berth/core/training"
)

func TestParseProgress(t *testing.T) {
	for text, want := range map[string]float64{"0.42": 0.42, "42%": 0.42, " 1 ": 1, "0": 0, "100 %": 1, "1e-1": 0.1} {
		if got, err := training.ParseProgress(text); err != nil || got.Ratio != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "42", "-0.1", "101%", "NaN", "half", "0.4.2", "+Inf"} {
		_, err := training.ParseProgress(text)
		if want := `"` + text + `" is not a valid progress: write a number from 0 to 1, such as 0.42, or a percentage, such as 42%`; err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTimeLeft(t *testing.T) {
	for _, tt := range []struct {
		name     string
		progress training.Progress
		ran      time.Duration
		want     time.Duration
		unknown  bool
	}{
		{"a quarter is done in an hour", training.Progress{Ratio: 0.25}, time.Hour, 3 * time.Hour, false},
		{"all is done", training.Progress{Ratio: 1}, time.Hour, 0, false},
		{"too little is done", training.Progress{Ratio: 0.001}, time.Hour, 0, true},
		{"nothing is done", training.Progress{}, time.Hour, 0, true},
		{"a program that has not begun", training.Progress{Ratio: 0.5}, 0, 0, true},
		{"it would take more than a year", training.Progress{Ratio: 0.01}, 100 * 24 * time.Hour, 0, true},
		{"its own estimate, less the time since", training.Progress{Ratio: 0.25, Left: training.Remaining{For: time.Hour, At: start.Add(50 * time.Minute)}}, time.Hour, 50 * time.Minute, false},
		{"its own estimate has passed", training.Progress{Ratio: 0.9, Left: training.Remaining{For: time.Minute, At: start}}, time.Hour, 0, false},
		{"its clock is ahead", training.Progress{Ratio: 0.9, Left: training.Remaining{For: time.Minute, At: start.Add(2 * time.Hour)}}, time.Hour, time.Minute, false},
	} {
		got, ok := tt.progress.TimeLeft(start, start.Add(tt.ran))
		if got != tt.want || ok == tt.unknown {
			t.Errorf("%s: %v, %v; want %v", tt.name, got, ok, tt.want)
		}
	}
	j := torchJob(func(j *training.Job) { j.Status.Start = start.Add(-time.Hour) })
	list := []training.Pod{{}, {Start: start.Add(time.Minute)}, {Start: start}}
	if got := j.Began(list); !got.Equal(start) {
		t.Errorf("a job began at %v, want the start of its first pod", got)
	}
	if j.Round = 1; !j.Began(list).Equal(j.Status.Start) {
		t.Errorf("a job that moved began at %v, want its own start", j.Began(list))
	}
	if _, ok := (training.Progress{Ratio: 0.5}).TimeLeft(time.Time{}, start); ok {
		t.Error("a program that has no start is given an estimate")
	}
}
