package checkpoint

import (
	"fmt"
	"strings"
	"time"
)

// reported begins the line of a termination message that says when a program last saved its work.
const reported = "berth-checkpoint:"

// Report returns the termination message that Reported reads.
func Report(at time.Time) string { return reported + " " + at.UTC().Format(time.RFC3339) }

// Reported returns when a program last saved its work, as its termination message says: a line "berth-checkpoint: " with a time as in RFC 3339, or with
// the age of its checkpoint when it ended, such as 90s. The last such line counts. It is zero if there is none.
func Reported(message string, ended time.Time) (at time.Time) {
	for line := range strings.Lines(message) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), reported)
		if !ok {
			continue
		}
		text = strings.TrimSpace(text)
		if age, err := time.ParseDuration(text); err == nil && age >= 0 {
			at = ended.Add(-age)
		} else if t, err := time.Parse(time.RFC3339, text); err == nil {
			at = t
		}
	}
	return at
}

// killed is the exit code of a program that was killed.
const killed = 137

// Stopped judges a program that was asked to stop and has ended with an exit code. proof is what shows that it has saved its work since, and
// missed, as the end of a sentence about it, that it has not. Both are "" if nothing is known, as of a program that does not save its work then.
func (s Saves) Stopped(asked time.Time, exit int) (proof, missed string) {
	switch {
	case !s.Last.IsZero() && !asked.IsZero() && !s.Last.Before(asked):
		return "its checkpoint of " + s.Last.UTC().Format(time.RFC3339), ""
	case !s.OnSignal:
		return "", ""
	case exit == killed:
		return "", "did not end within its grace period and was killed, so its last checkpoint may be an older one: set a greater terminationGracePeriodSeconds"
	case s.Code == 0:
		return "", ""
	case exit == s.Code:
		return fmt.Sprintf("exit code %d", exit), ""
	}
	return "", fmt.Sprintf("ended with exit code %d and not with %d, so its last checkpoint may be an older one: see its log", exit, s.Code)
}
