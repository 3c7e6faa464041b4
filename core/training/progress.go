package training

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Progress is how much of its work a program has done, as it reports.
type Progress struct {
	Ratio float64   // 0-1
	Left  Remaining // as the program estimates
}

// Remaining is an estimate of how much longer a program runs, that was made at a time. The zero value is none.
type Remaining struct {
	For time.Duration
	At  time.Time
}

// ParseProgress reads a progress from 0 to 1, such as "0.42", or in percent, such as "42%". The error says what to write.
func ParseProgress(text string) (Progress, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	ratio, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		ratio /= 100
	}
	if err != nil || math.IsNaN(ratio) || ratio < 0 || ratio > 1 {
		return Progress{}, fmt.Errorf("%q is not a valid progress: write a number from 0 to 1, such as 0.42, or a percentage, such as 42%%", text)
	}
	return Progress{Ratio: ratio}, nil
}

// mostLeft bounds estimates: a program that has barely begun says nothing of its end.
const mostLeft = 366 * 24 * time.Hour

// leastRatio is from which progress on the time so far says something of the time that is left.
const leastRatio = 0.01

// TimeLeft returns how much longer a program is expected to run that runs since began. Its own estimate counts, less the time since;
// else it is taken to be as fast in the rest of its work as it was so far. A program that went on from a checkpoint seems faster than it
// is, so began is best the first start. It reports false if nothing can be said: too little is done yet, or it has not begun.
func (p Progress) TimeLeft(began, now time.Time) (time.Duration, bool) {
	switch {
	case p.Ratio >= 1:
		return 0, true
	case !p.Left.At.IsZero():
		return max(0, p.Left.For-max(0, now.Sub(p.Left.At))), true
	case began.IsZero() || !now.After(began) || p.Ratio < leastRatio:
		return 0, false
	}
	left := now.Sub(began).Seconds() * (1 - p.Ratio) / p.Ratio
	if left > mostLeft.Seconds() {
		return 0, false
	}
	return time.Duration(left * float64(time.Second)), true
}

// Began returns since when the programs of a job work: since the first of its pods started. A job that was moved went on from a
// checkpoint, if it has one, so for it the job's own start counts, with the time between. It is zero if it is not known.
func (j *Job) Began(pods []Pod) time.Time {
	if j.Round > 0 || len(pods) == 0 {
		return j.Status.Start
	}
	var first time.Time
	for i := range pods {
		if at := pods[i].Start; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
