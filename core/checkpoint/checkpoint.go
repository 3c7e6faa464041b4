// Package checkpoint says how a program saves its work, and how much of it is lost when the program is stopped.
package checkpoint

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Saves is how a program saves its work. The zero value is that it does not.
type Saves struct {
	OnSignal bool          // when it is asked to stop, within its grace period
	Code     int           // with OnSignal, the exit code by which it proves that it did; 0 is that its exit code says nothing
	Every    time.Duration // so often; 0 is not periodically
	Last     time.Time     // when it last did, as the program says; zero is not known
	Unasked  bool          // it ends without being asked to stop, as with its node
}

// The words of Parse.
const (
	onSignal = "on-signal"
	withCode = "on-signal:"
	periodic = "periodic:"
	none     = "none"
)

// Parse reads how a program saves its work: "on-signal", "on-signal:85" with the exit code that proves it, from 1 to 255, "periodic:30m", "30m", which is the same, or "none", as is
// "". The error says what to write.
func Parse(text string) (Saves, error) {
	switch text {
	case "", none:
		return Saves{}, nil
	case onSignal:
		return Saves{OnSignal: true}, nil
	}
	if text, ok := strings.CutPrefix(text, withCode); ok {
		if code, err := strconv.ParseUint(text, 10, 8); err == nil && code > 0 && code != killed {
			return Saves{OnSignal: true, Code: int(code)}, nil
		}
	}
	d, err := time.ParseDuration(strings.TrimPrefix(text, periodic))
	if err != nil || d <= 0 {
		return Saves{}, fmt.Errorf("%q does not say how work is saved: write on-signal, periodic: and how often, such as periodic:30m, or none", text)
	}
	return Saves{Every: d}, nil
}

// Any reports whether the program saves its work at all.
func (s Saves) Any() bool { return s.OnSignal || s.Every > 0 || !s.Last.IsZero() }

// Lost returns how long the program has to run again, at most, if it is asked to stop now: nothing if it saves its
// work then; else the time since its last checkpoint; if that is not known, the time between two; and no more than the time since its
// start. A start of zero has lost nothing.
func (s Saves) Lost(start, now time.Time) time.Duration {
	if start.IsZero() || s.OnSignal && !s.Unasked {
		return 0
	}
	lost := max(0, now.Sub(start))
	switch {
	case !s.Last.IsZero():
		lost = min(lost, max(0, now.Sub(s.Last)))
	case s.Every > 0:
		lost = min(lost, s.Every)
	}
	return lost
}

// Sentence says what the eviction of a program costs that has run on so many milli-GPUs since start: a part of a sentence about its pod, such as
// "it loses 3.2 GPU-hours of work, as it does not say that it saves any". It is "" for one that had not started or has no GPUs, and
// if it loses little and does not say when it saved its work.
func (s Saves) Sentence(start, now time.Time, milliGPUs int64) string {
	if start.IsZero() || milliGPUs <= 0 {
		return ""
	}
	minutes := s.Lost(start, now).Minutes() * float64(milliGPUs) / 1000
	work := gpuTime(minutes)
	switch {
	case s.OnSignal && !s.Unasked:
		return "it loses nothing if it saves its work when it is asked to stop, as it says"
	case !s.Last.IsZero() && !s.Last.Before(start):
		return fmt.Sprintf("it loses %s of work, since its last checkpoint of %s", work, s.Last.UTC().Format(time.RFC3339))
	case minutes < little:
		return ""
	case s.Every > 0:
		return fmt.Sprintf("it loses at most %s of work, as it saves it every %s", work, short(s.Every))
	case s.OnSignal:
		return fmt.Sprintf("it loses %s of work, as it could not be asked to stop", work)
	}
	return fmt.Sprintf("it loses %s of work, as it does not say that it saves any", work)
}

// little is how many GPU-minutes are not worth a word.
const little = 1.5

// gpuTime writes a number of minutes of one GPU.
func gpuTime(minutes float64) string {
	switch {
	case minutes >= 60:
		return strconv.FormatFloat(minutes/60, 'f', 1, 64) + " GPU-hours"
	case minutes >= little:
		return strconv.FormatFloat(minutes, 'f', 0, 64) + " GPU-minutes"
	}
	return "a GPU-minute or less"
}

// short writes a duration without units that are 0.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
