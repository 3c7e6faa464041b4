package training

import "strings"

// The states of jobs that are not types of conditions.
const (
	StateQueued     = "Queued"     // its pods wait for GPUs or quota, or it does without pods until its turn
	StateSuspending = "Suspending" // it is to be suspended, and was not yet
)

// State returns what a job does, in one word: the type of the condition that matters most, or one
// of the states above. A job whose pods are not all placed or not started is Created.
func (j *Job) State() string {
	s := &j.Status
	for _, end := range []string{ConditionFailed, ConditionSucceeded} {
		if s.Is(end) {
			return end
		}
	}
	switch {
	case j.Suspend && s.Is(ConditionSuspended) && s.Is(ConditionQueued):
		return StateQueued
	case j.Suspend && s.Is(ConditionSuspended):
		return ConditionSuspended
	case j.Suspend:
		return StateSuspending
	case s.Is(ConditionRestarting):
		return ConditionRestarting
	case s.Is(ConditionRunning):
		return ConditionRunning
	case s.Is(ConditionQueued):
		return StateQueued
	}
	return ConditionCreated
}

// Why returns why a job waits, restarts, or has failed, as its conditions say; "" is none of these.
func (j *Job) Why() string {
	for _, c := range j.Status.Conditions {
		waits := c.Type == ConditionQueued && (!j.Suspend || j.Status.Is(ConditionSuspended)) || c.Type == ConditionRestarting && !j.Suspend
		if c.True && (c.Type == ConditionFailed || waits && !j.Status.Ended()) {
			return c.Message
		}
	}
	return ""
}

// Brief returns what a message of the scheduler says of the pods, without the number of nodes before it and what
// preemption found after it.
func Brief(message string) string {
	if nodes, rest, ok := strings.Cut(message, " nodes are available: "); ok && strings.Contains(nodes, "/") && !strings.Contains(nodes, " ") {
		message = rest
	}
	message, _, _ = strings.Cut(message, " preemption: ")
	return strings.TrimSuffix(message, ".")
}

// Active returns how many pods of the job run.
func (j *Job) Active() int {
	n := 0
	for _, r := range j.Status.Replicas {
		n += r.Active
	}
	return n
}

// lag is by how much less than the mean the GPUs of a rank are busy for it to be slower than others. Readings
// of ranks that are equally fast differ by a few hundredths.
const lag = 0.05

// Slowest returns the rank whose GPUs are least busy, of the ratios that are known by rank, and
// the mean of all. The lowest rank wins a tie. It reports false if all ranks are about equally busy.
func Slowest(busy map[int]float64) (rank int, mean float64, ok bool) {
	rank = -1
	for r, b := range busy {
		mean += b / float64(len(busy))
		if rank < 0 || b < busy[rank] || b == busy[rank] && r < rank {
			rank = r
		}
	}
	return rank, mean, rank >= 0 && mean-busy[rank] >= lag
}
